# Owner(s): ["module: intel"]
"""The first use of a device type initialises it, through its Python module.

A module that is made here takes the place of torch.cuda or torch.xpu, so that
this runs on any machine: what counts is when, how often and from where
torch::utils::device_lazy_init asks the module, and what becomes of the answer.
See Note [Lazy initialisation of devices].
"""

import ctypes
import functools
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
import threading
import unittest
import warnings

import torch

CHILD = "TEST_DEVICE_LAZY_INIT_CHILD"
TIMEOUT = 120  # seconds, for what would hang if threads waited for each other
THREADS = 16


def setUpModule():
    mapping = os.environ.get("TORCH_XPU_MAPPING", "CPU")
    if mapping != "CPU" and CHILD not in os.environ:
        raise unittest.SkipTest(
            f"uses no device, and so is not run with TORCH_XPU_MAPPING={mapping}"
        )


def in_new_process(test):
    """What is tested is a state of the process: each test has its own."""

    @functools.wraps(test)
    def run(self):
        if CHILD in os.environ:
            return test(self)
        name = f"{__name__}.{type(self).__name__}.{test.__name__}"
        child = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "unittest", name],
            cwd=os.path.dirname(os.path.abspath(__file__)),
            env={**os.environ, CHILD: "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual(child.returncode, 0, child.stdout)
        self.assertIn("Ran 1 test", child.stdout)

    return run


class InitialisationError(Exception):
    pass


class Module:
    """A module as the note asks for, which records what is asked of it."""

    def __init__(self, work=lambda: None):
        self.work = work
        self.calls = 0  # of _lazy_init, nested ones too
        self.attempts = 0  # how often the work was begun
        self.complete = False
        self.changed = threading.Condition()
        self._lock = threading.Lock()
        self._here = threading.local()

    def _lazy_init(self):
        with self.changed:
            self.calls += 1
            self.changed.notify_all()
        if self.complete or getattr(self._here, "working", False):
            return
        with self._lock:
            if self.complete:
                return
            self.attempts += 1
            self._here.working = True
            try:
                self.work()
            finally:
                self._here.working = False
            self.complete = True

    def is_initialized(self):
        return self.complete

    def wait_for_calls(self, count):
        with self.changed:
            if not self.changed.wait_for(lambda: self.calls >= count, TIMEOUT / 2):
                raise AssertionError(f"{self.calls} calls of {count}")


def fail():
    raise InitialisationError("no such driver")


class Threads:
    """Runs a function in many threads at once; results and errors in order."""

    def __init__(self, function, count=THREADS):
        self.results = [None] * count
        self.errors = [None] * count
        self._start = threading.Barrier(count)
        self._threads = [
            threading.Thread(target=self._run, args=(function, i)) for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, function, i):
        self._start.wait()
        try:
            self.results[i] = function()
        except Exception as error:
            self.errors[i] = error

    def join(self):
        for thread in self._threads:
            thread.join()
        return self


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module whose import fails for want of another one."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == self.name else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        import no_such_module  # noqa: F401


class LazyInit:
    """The tests, for `device_type` of the classes below."""

    def put(self, module):
        sys.modules[f"torch.{self.device_type}"] = module
        return module

    def use(self):
        """Uses the device; the build may have no kernels for it."""
        try:
            torch.empty(2, device=self.device_type)
        except NotImplementedError as error:
            self.assertIn(f"'{self.device_type.upper()}' backend", str(error))

    def uses(self):
        """Every kind of binding that makes a tensor on a device or moves one there."""
        device = self.device_type
        cpu = torch.ones(2)
        return {
            "empty": lambda: torch.empty(2, device=device),
            "empty_strided": lambda: torch.empty_strided((2,), (1,), device=device),
            "randn": lambda: torch.randn(2, device=torch.device(device, 0)),
            "arange": lambda: torch.arange(2, device=device),
            "range": lambda: torch.range(0, 2, device=device),
            "full": lambda: torch.full((2,), 1.0, device=device),
            "hann_window": lambda: torch.hann_window(2, device=device),
            "fft.fftfreq": lambda: torch.fft.fftfreq(2, device=device),
            "empty_like": lambda: torch.empty_like(cpu, device=device),
            "tensor": lambda: torch.tensor([1.0, 2.0], device=device),
            "tensor of a tensor": lambda: torch.tensor(cpu, device=device),
            "as_tensor": lambda: torch.as_tensor(cpu, device=device),
            "as_tensor of a buffer": lambda: torch.as_tensor(
                cpu.numpy(), device=device
            ),
            "Tensor.new_empty": lambda: cpu.new_empty((2,), device=device),
            "Tensor.new_tensor": lambda: cpu.new_tensor([1.0], device=device),
            "Tensor.to": lambda: cpu.to(device),
            "Tensor.to with a type": lambda: cpu.to(device, torch.float64),
            "Tensor.to by name": lambda: cpu.to(device=device, non_blocking=True),
            f"Tensor.{device}": lambda: getattr(cpu, device)(),
            f"Tensor.{device} with an index": lambda: getattr(cpu, device)(
                torch.device(device, 0)
            ),
            "Module.to": lambda: torch.nn.Linear(2, 2).to(device),
        }

    @in_new_process
    def test_every_use_initialises(self):
        module = self.put(Module(fail))
        for name, use in self.uses().items():
            before = module.attempts
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self.assertRaisesRegex(InitialisationError, "^no such driver$"):
                    use()
                self.assertEqual(module.attempts - before, 1)

    @in_new_process
    def test_other_uses_do_not(self):
        module = self.put(Module(fail))
        cpu = torch.ones(2, device="cpu")
        for use in (
            lambda: torch.device(self.device_type, 0),
            lambda: torch.empty(2, device="meta"),
            lambda: cpu.to("cpu", torch.float64),
            lambda: cpu.to(torch.float64).cpu(),
            lambda: cpu.type("torch.DoubleTensor"),
            lambda: torch.as_tensor(cpu),
            lambda: torch.asarray([1.0]),
            lambda: torch.empty_like(cpu),
            lambda: torch.UntypedStorage(4, device="cpu"),
            lambda: torch.from_dlpack(cpu),
        ):
            use()
        self.assertEqual(module.calls, 0)

    @in_new_process
    def test_once(self):
        module = self.put(Module())
        self.use()
        self.assertTrue(module.complete)
        for _ in range(3):
            self.use()
        self.assertEqual((module.calls, module.attempts), (1, 1))

    @in_new_process
    def test_failure_can_be_tried_again(self):
        module = self.put(Module(fail))
        for _ in range(2):
            with self.assertRaises(InitialisationError):
                self.use()
        module.work = lambda: None
        self.use()
        self.use()
        self.assertEqual((module.calls, module.attempts), (3, 3))

    @in_new_process
    def test_many_threads_at_once(self):
        # The one that works goes on only when all others have come too
        module = self.put(Module(lambda: module.wait_for_calls(THREADS)))

        def use():
            self.use()
            return module.complete

        threads = Threads(use).join()
        self.assertEqual(threads.errors, [None] * THREADS)
        self.assertEqual(threads.results, [True] * THREADS)
        self.assertEqual((module.calls, module.attempts), (THREADS, 1))
        self.use()
        self.assertEqual(module.calls, THREADS)

    @in_new_process
    def test_many_threads_at_once_and_a_failure(self):
        def work():
            module.wait_for_calls(THREADS)
            if module.attempts == 1:
                fail()

        module = self.put(Module(work))
        errors = Threads(self.use).join().errors
        raised = [error for error in errors if error is not None]
        self.assertEqual(
            [type(error) for error in raised], [InitialisationError], str(raised)
        )
        self.assertEqual((module.calls, module.attempts), (THREADS, 2))

    @in_new_process
    def test_nested_use_does_not_count_as_done(self):
        def work():
            self.use()
            fail()

        module = self.put(Module(work))
        with self.assertRaises(InitialisationError):
            self.use()
        with self.assertRaises(InitialisationError):
            self.use()
        self.assertEqual((module.calls, module.attempts), (4, 2))

        module.work = self.use
        self.use()
        self.use()
        self.assertEqual((module.calls, module.attempts), (6, 3))

    @in_new_process
    def test_threads_meet_one_that_came_by_python(self):
        # The thread has the module's lock and then uses the device, while
        # others use the device and then want the module's lock.
        def work():
            module.wait_for_calls(1 + THREADS)
            self.use()

        module = self.put(Module(work))
        first = Threads(module._lazy_init, count=1)
        module.wait_for_calls(1)
        others = Threads(lambda: (self.use(), module.complete)[1]).join()
        self.assertEqual(first.join().errors + others.errors, [None] * (1 + THREADS))
        self.assertEqual(others.results, [True] * THREADS)
        self.assertEqual((module.calls, module.attempts), (2 + THREADS, 1))

    @in_new_process
    def test_forked_child_asks_again(self):
        # The module's part, for which there is no binding
        library = ctypes.PyDLL(torch._C.__file__)
        require = library._ZN5torch5utils24set_requires_device_initEN3c1010DeviceTypeEb
        require.argtypes = [ctypes.c_int8, ctypes.c_bool]
        require.restype = None
        number = int(getattr(torch._C._autograd.DeviceType, self.device_type.upper()))

        module = self.put(Module())
        self.use()

        def after_fork():
            require(number, True)
            module.complete = False
            module.work = fail

        os.register_at_fork(after_in_child=after_fork)
        child = os.fork()
        if child == 0:
            try:
                self.use()
            except InitialisationError:
                os._exit(3)
            finally:
                os._exit(4)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)
        self.use()
        self.assertEqual(module.calls, 1)

        # And the other way round: taken for granted without asking
        require(number, True)
        require(number, False)
        self.use()
        self.assertEqual(module.calls, 1)

    @in_new_process
    def test_no_module(self):
        self.put(None)  # what makes an import say that there is no such module
        name, upper = f"torch.{self.device_type}", self.device_type.upper()
        for _ in range(2):
            with self.assertRaises(RuntimeError) as raised:
                self.use()
            self.assertIs(type(raised.exception), RuntimeError)
            self.assertEqual(
                str(raised.exception).splitlines()[0],
                f"Cannot initialize {upper}: there is no Python module {name}, which "
                "does it. This PyTorch has no support for devices of this type; use "
                "one that has, or a device of another type.",
            )
        module = self.put(Module())
        self.use()
        self.assertEqual(module.attempts, 1)

    @in_new_process
    def test_module_that_cannot_be_imported(self):
        name = f"torch.{self.device_type}"
        sys.modules.pop(name, None)
        sys.meta_path.insert(0, Missing(name))
        with self.assertRaises(ModuleNotFoundError) as raised:
            self.use()
        self.assertEqual(raised.exception.name, "no_such_module")


class TestLazyInitCUDA(LazyInit, unittest.TestCase):
    device_type = "cuda"


class TestLazyInitXPU(LazyInit, unittest.TestCase):
    device_type = "xpu"

    def uses(self):
        cpu = torch.ones(2)
        indices = torch.tensor([[0, 1]])
        return {
            **super().uses(),
            "asarray": lambda: torch.asarray(cpu, device="xpu"),
            "asarray of a list": lambda: torch.asarray([1.0], device="xpu"),
            "sparse_coo_tensor": lambda: torch.sparse_coo_tensor(
                indices, cpu, device="xpu"
            ),
            "sparse_coo_tensor with a size": lambda: torch.sparse_coo_tensor(
                (2,), device="xpu"
            ),
            "sparse_csr_tensor": lambda: torch.sparse_csr_tensor(
                [0, 1, 2], [0, 1], [1.0, 2.0], device="xpu"
            ),
            "UntypedStorage": lambda: torch.UntypedStorage(4, device="xpu"),
        }


if __name__ == "__main__":
    from torch.testing._internal.common_utils import run_tests

    run_tests()
