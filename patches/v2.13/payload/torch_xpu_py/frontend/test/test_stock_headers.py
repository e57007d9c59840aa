# Owner(s): ["module: intel"]
"""C++ extensions that are compiled with the headers of the PyTorch wheel: what these
promise, and the example of docs/stock-torch.md."""

import collections
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

import torch
import torch_xpu_runtime
from torch.testing._internal.common_utils import run_tests, TestCase

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = pathlib.Path(torch.__file__).parent / "include"
HEADERS = (
    *sorted((INCLUDE / "c10" / "xpu").glob("*.h")),
    *sorted((INCLUDE / "ATen" / "xpu").glob("*.h")),
    INCLUDE / "torch" / "csrc" / "xpu" / "XPUPluggableAllocator.h",
)
API = r"(?:C10_XPU_API|TORCH_XPU_API|TORCH_PYTHON_API)"


def code(text):
    """C++ without comments, without the preprocessor's lines and on one line."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = text.replace("\\\n", " ")
    text = re.sub(r"^\s*#[^\n]*", " ", text, flags=re.M)
    return re.sub(r"\s+", " ", text)


def statements(text):
    """What ends with a semicolon or a body, each with the scopes it is in."""
    scopes, start = [], 0
    for mark in re.finditer(r"[{};]", text):
        said = text[start : mark.start()].strip()
        start = mark.end()
        if mark.group() == "}":
            if scopes:
                scopes.pop()
            continue
        yield said, [scope for scope in scopes if scope], mark.group() == "{"
        if mark.group() == "{":
            scopes.append(scope_of(said))


def scope_of(said):
    """The name of a namespace or a class that begins; of a body "?"."""
    found = re.search(rf"\b(?:namespace|struct|class)\s+(?:{API}\s+)?([\w:]+)[^()]*$", said)
    if found:
        exported = "!" if re.search(rf"\b(?:struct|class)\s+{API}\b", said) else ""
        return exported + found.group(1)
    return "" if said == "namespace" else "?"


def declared():
    """How often each function, member and object is declared that is in a library."""
    names = collections.Counter()
    for header in HEADERS:
        text = re.sub(r"= ?\{[^{}]*\}", " ", code(header.read_text()))  # default values
        for said, scopes, has_body in statements(text):
            if has_body or "?" in scopes or "inline" in said or "friend" in said:
                continue
            name = name_of(said, scopes)
            if name:
                names["::".join([*(scope.lstrip("!") for scope in scopes), name])] += 1
    return names


def name_of(said, scopes):
    in_class = scopes and scopes[-1].startswith("!")
    if not re.search(rf"^\s*{API}\b", said) and not in_class:
        return None
    if re.search(r"= (?:default|delete|0)$|^(?:using|typedef|static constexpr|C10_DISABLE)", said):
        return None
    # xpu_stock_allocator_test.cpp derives from this class, and so links to what overrides.
    if in_class and scopes[-1] == "!XPUPluggableAllocator" and said.endswith(("override", "final")):
        return None
    said = re.sub(rf"^(?:(?:public|private|protected)\s*:|{API}|\s)+", "", said)
    if re.match(r"(?:struct|class)\b", said):
        return None
    said = re.sub(r"<[^<>]*>", "", said)  # such as std::function<void(int)>
    function = re.search(r"(operator\s*\W+?|~?\w+)\s*\(", said)
    if function:
        return function.group(1)
    variable = re.search(r"(\w+)$", said)
    return variable.group(1) if variable and not in_class else None


class TestHeaders(TestCase):
    def test_every_function_has_a_test(self):
        """xpu_stock_symbols_test.cpp links to each."""
        source = code((HERE / "stock_headers" / "xpu_stock_symbols_test.cpp").read_text())
        linked = collections.Counter(
            "::".join(part for part in found if part)
            for found in re.findall(
                r"(?:FUNCTION\( ?|& ?)((?:c10|at|torch)::[\w:]+(?:<<)?)"
                r"|MEMBER\( ?([\w:]+), (\w+)",
                source,
            )
        )
        # Constructors and destructors have no address: objects of these classes are made.
        wanted = {
            name: count
            for name, count in declared().items()
            if name.split("::")[-1].lstrip("~") != name.split("::")[-2]
            and not name.endswith("::clone_impl")  # private
        }
        self.assertGreater(len(wanted), 60)
        self.assertEqual({name: linked[name] for name in wanted}, dict(wanted))


def reason_not_to_build():
    if torch.xpu.device_count() == 0:
        return "there is no device"
    if shutil.which("c++") is None:
        return "there is no C++ compiler"
    if importlib.util.find_spec("setuptools") is None:
        return "there is no setuptools"
    from torch.utils import cpp_extension

    if cpp_extension.SYCL_HOME is None:
        return "there is neither icpx nor the package intel-sycl-rt in this environment"
    return None


class TestExample(TestCase):
    """The extension of docs/stock-torch.md."""

    PROGRAM = """
        import torch, fill

        storage = torch.UntypedStorage(100, device="xpu")
        stream = torch.xpu.Stream()
        with stream:
            fill.fill(storage.data_ptr(), 100, 7)
            print(fill.contents(storage.data_ptr(), 100) == bytes([7]) * 100)
        """

    STREAM = """
        #include <pybind11/pybind11.h>
        #include <torch/csrc/xpu/Stream.h>

        int64_t id(pybind11::object object) {
          return THXPStream_Check(object.ptr())
              ? reinterpret_cast<THXPStream*>(object.ptr())->xpu_stream.id()
              : -1;
        }

        PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
          module.def("id", &id);
        }
        """
    USE_STREAM = """
        import torch, fill

        stream = torch.xpu.Stream()
        print(fill.id(stream) == stream.stream_id, fill.id(None) == -1)
        """

    def check(self, change, program=PROGRAM, **environment):
        reason = reason_not_to_build()
        if reason:
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder:
            for file in (HERE / "stock_headers" / "example").iterdir():
                pathlib.Path(folder, file.name).write_text(change(file.read_text()))
            command = [sys.executable, "setup.py", "build_ext", "--inplace"]
            self.run_in(folder, command, **environment)
            command = [sys.executable, "-c", textwrap.dedent(program)]
            mapping = torch.xpu.mapping()
            printed = self.run_in(folder, command, TORCH_XPU_MAPPING=mapping).split()
            self.assertEqual({*printed}, {"True"})

    def run_in(self, folder, command, **environment):
        variables = {**os.environ, "MAX_JOBS": "1", **environment}
        result = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, timeout=600
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_paths_in_setup_py(self):
        self.check(lambda text: text)

    def test_stream_of_python(self):
        """C++ knows a torch.xpu.Stream by PyTorch's THXPStream."""

        def change(text):
            return textwrap.dedent(self.STREAM) if "PYBIND11_MODULE" in text else text

        self.check(change, self.USE_STREAM)

    def test_paths_in_the_environment(self):
        """A setup.py that knows nothing of this runtime."""

        def change(text):
            return "".join(
                line for line in text.splitlines(True) if "torch_xpu_runtime" not in line
            )

        self.check(
            change,
            CPATH=os.pathsep.join(torch_xpu_runtime.include_paths()),
            LIBRARY_PATH=os.pathsep.join(torch_xpu_runtime.library_paths()),
        )


if __name__ == "__main__":
    run_tests()
