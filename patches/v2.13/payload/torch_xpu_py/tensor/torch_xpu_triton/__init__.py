r"""A backend of Triton for XPU devices that are NVIDIA cards.

Triton finds it by the entry point group ``triton.backends``. It is a package beside
``torch_xpu_runtime``, since that imports PyTorch, and ``import triton`` does not.

Note [Triton on an NVIDIA card]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
SYCL's CUDA backend takes the primary context of the card, and the queues of ``torch.xpu``
are streams of CUDA. So Triton's own backend for NVIDIA compiles and launches the kernels.
What differs is whom it asks: for the current device and stream ``torch.xpu``, for the
stream of a queue ``torch.xpu.Stream.native_stream``, and for the card that a device is,
the context of its stream: several ordinals may be one card.

Nothing here asks for a device when it is imported. On other devices, and where PyTorch has
no XPU, the driver says that it is not active.
"""
