"""Keeps a series of changes and a checkout of it in step.

It knows nothing of PyTorch or XPU: what differs between projects is in patches/stack.yaml.
"""
