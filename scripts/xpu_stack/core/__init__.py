"""Keeps a series of changes and a checkout of it in step.

It knows nothing of PyTorch or XPU: names, folders and texts that differ between
projects are in patches/stack.yaml.
"""
