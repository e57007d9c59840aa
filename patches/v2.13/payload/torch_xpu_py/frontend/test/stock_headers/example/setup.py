import torch_xpu_runtime
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, SyclExtension

setup(
    name="fill",
    ext_modules=[
        SyclExtension(
            "fill",
            ["fill.cpp"],
            include_dirs=torch_xpu_runtime.include_paths(),
            library_dirs=torch_xpu_runtime.library_paths(),
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
