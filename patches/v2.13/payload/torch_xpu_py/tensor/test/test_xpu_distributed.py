# Owner(s): ["module: intel"]
"""torch.distributed with XPU tensors in two processes, and DataParallel in one.

The model of a collective is the same collective with CPU tensors and gloo. Functions
that are named check_... run in both processes of a pair.
"""

import contextlib
import copy
import gc
import itertools
import multiprocessing
import os
import threading
import time
import traceback
import unittest
import warnings
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor, Replicate, Shard
from torch.nn.parallel import comm, DataParallel, DistributedDataParallel
from torch.testing import assert_close
from torch.testing._internal.common_utils import run_tests, TestCase

COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0
SIZE = 2  # processes
LIMIT = timedelta(seconds=30)  # for a collective
START = 120  # seconds for a process to start, or to do a check
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)

needs_device = unittest.skipIf(COUNT == 0, "there is no device")
needs_two = unittest.skipIf(COUNT < 2, "there is one device")


def exactly(found, expected):
    assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


# Collectives: functions of what makes tensors and of a group that return tensors.


class Maker:
    """Makes the same tensors on each device, and others in each process."""

    def __init__(self, device):
        self.device = device
        self.rank = dist.get_rank()
        self.count = 0

    def __call__(self, *shape, dtype=torch.float32):
        self.count += 1
        generator = torch.Generator().manual_seed(1000 * self.rank + self.count)
        if dtype.is_floating_point or dtype.is_complex:
            result = torch.rand(shape, generator=generator).to(dtype)
        else:
            result = torch.randint(
                0, 2 if dtype == torch.bool else 5, shape, generator=generator
            )
        return result.to(dtype).to(self.device)

    def several(self, count, *shape):
        return [self(*shape) for _ in range(count)]


def collectives():
    """The collectives by name."""
    found = {name: each for name, each in globals().items() if name.startswith("do_")}
    for op in OPS:
        for dtype in DTYPES:
            found[f"do_all_reduce, {op}, {dtype}"] = all_reduce_of(op, dtype)
    return found


def all_reduce_of(op, dtype):
    def function(make, group):
        x = make(4, 3, dtype=dtype)
        dist.all_reduce(x, getattr(dist.ReduceOp, op), group=group)
        return [x]

    return function


def do_all_reduce_of_shapes(make, group):
    tensors = [make(), make(0), make(7, 5).t(), make(1, 2, 3, 4), make(300_000), make(9)[2:6]]
    for x in tensors:
        dist.all_reduce(x, group=group)
    return tensors


def do_all_reduce_of_a_part(make, group):
    whole = make(6, 4)
    dist.all_reduce(whole[2:4], group=group)
    return [whole]


def do_all_reduce_coalesced(make, group):
    tensors = [make(3), make(4, 5), make(0)]
    dist.all_reduce_coalesced(tensors, group=group)
    return tensors


def do_all_reduce_of_sparse_tensors(make, group):
    indices = torch.tensor([[0, 1 + make.rank], [2, 0]], device=make.device)
    x = torch.sparse_coo_tensor(indices, make(2), (4, 3))
    dist.all_reduce(x, group=group)
    return [x.coalesce().to_dense()]


def do_broadcast(make, group):
    tensors = [make(5, 3), make(), make(2, dtype=torch.bool), make(3, dtype=torch.complex64)]
    for root, x in enumerate(tensors):
        dist.broadcast(x, root % SIZE, group=group)
    return tensors


def do_reduce(make, group):
    tensors = [make(5, 3), make(4)]
    for root, x in enumerate(tensors):
        dist.reduce(x, root, group=group)
    return tensors[make.rank : make.rank + 1]  # the other's is undefined


def do_all_gather(make, group):
    outputs = make.several(SIZE, 5, 3)
    dist.all_gather(outputs, make(5, 3), group=group)
    whole = make(SIZE, 4)
    dist.all_gather(list(whole.unbind()), make(4), group=group)
    return [*outputs, whole]


def do_all_gather_into_tensor(make, group):
    output = make(SIZE * 5, 3)
    dist.all_gather_into_tensor(output, make(5, 3), group=group)
    in_place = make(SIZE * 4)
    dist.all_gather_into_tensor(in_place, in_place.chunk(SIZE)[make.rank], group=group)
    return [output, in_place]


def do_all_gather_coalesced(make, group):
    outputs = [make.several(SIZE, 5), make.several(SIZE, 2, 2)]
    dist.all_gather_coalesced(
        [list(each) for each in zip(*outputs)], [make(5), make(2, 2)], group
    )
    return [*outputs[0], *outputs[1]]


def do_all_gather_into_tensor_coalesced(make, group):
    outputs = [make(SIZE * 5), make(SIZE * 2, 2)]
    group.allgather_into_tensor_coalesced(outputs, [make(5), make(2, 2)]).wait()
    return outputs


def do_gather(make, group):
    outputs = make.several(SIZE, 5)
    root = make.rank == 1
    dist.gather(make(5), outputs if root else None, dst=1, group=group)
    return outputs


def do_scatter(make, group):
    output = make(5)
    inputs = make.several(SIZE, 5)
    dist.scatter(output, inputs if make.rank == 1 else None, src=1, group=group)
    return [output]


def do_reduce_scatter(make, group):
    output = make(5)
    dist.reduce_scatter(output, make.several(SIZE, 5), group=group)
    return [output]


def do_reduce_scatter_tensor(make, group):
    output, average = make(5, 2), make(3)
    dist.reduce_scatter_tensor(output, make(SIZE * 5, 2), group=group)
    dist.reduce_scatter_tensor(average, make(SIZE * 3), dist.ReduceOp.AVG, group=group)
    in_place = make(SIZE * 4)
    part = in_place.chunk(SIZE)[make.rank]
    dist.reduce_scatter_tensor(part, in_place, group=group)
    return [output, average, part]


def do_reduce_scatter_tensor_coalesced(make, group):
    outputs = make.several(2, 5)
    group.reduce_scatter_tensor_coalesced(outputs, make.several(2, SIZE * 5)).wait()
    return outputs


def do_all_to_all(make, group):
    outputs = make.several(SIZE, 5)
    dist.all_to_all(outputs, make.several(SIZE, 5), group=group)
    return outputs


def do_all_to_all_single(make, group):
    equal, uneven = make(6, 2), make(2 * make.rank + 1)
    dist.all_to_all_single(equal, make(6, 2), group=group)
    # Process 0 sends 0 and 1 elements, process 1 sends 1 and 2.
    sent, received = [make.rank, make.rank + 1], [make.rank, make.rank + 1]
    dist.all_to_all_single(uneven, make(sum(sent)), received, sent, group=group)
    return [equal, uneven]


def do_send_and_recv(make, group):
    x = make(5, 3)
    if make.rank == 0:
        dist.send(x, 1, group=group)
        dist.send(x + 1, 1, group=group, tag=7)
        return [x]
    y = make(5, 3)
    dist.recv(x, 0, group=group)
    # None is any source.
    assert dist.recv(y, None, group=group, tag=7) == 0
    return [x, y]


def do_batch_isend_irecv(make, group):
    x, y = make(5), make(5)
    other = 1 - make.rank
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, other, group), dist.P2POp(dist.irecv, y, other, group)]
    )
    for work in works:
        work.wait()
    return [y]


def do_async(make, group):
    tensors = make.several(8, 1000)
    works = [dist.all_reduce(x, group=group, async_op=True) for x in tensors]
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success()
        assert work.wait()
    return [*tensors, *(work.result()[0] for work in works)]


def outcome(function, device, group):
    """The results on the CPU, or the type of the error."""
    try:
        return [each.cpu() for each in function(Maker(device), group)]
    except (RuntimeError, ValueError) as error:
        return type(error)


def check_collectives():
    gloo = dist.new_group(backend="gloo")
    passed = 0
    for name, function in collectives().items():
        expected = outcome(function, "cpu", gloo)
        found = outcome(function, "xpu", dist.group.WORLD)
        if isinstance(expected, type) or isinstance(found, type):
            assert found == expected, f"{name}: {found}, gloo: {expected}"
            continue
        assert len(found) == len(expected), name
        passed += 1
        for index, (one, other) in enumerate(zip(found, expected)):
            assert_close(
                one,
                other,
                rtol=0,
                atol=0,
                equal_nan=True,
                msg=lambda text: f"{name}: {index}: {text}",
            )
    assert passed > 70, passed  # gloo reduces no bits of floats, no booleans, ...


# Backends and groups


def check_backend_is_the_default():
    assert dist.get_backend() == "undefined", dist.get_backend()  # it was not named
    backend = dist.group.WORLD._get_backend(torch.device("xpu"))
    assert backend.name() == "xpu_gloo", backend.name()
    assert dist.get_default_backend_for_device("xpu") == "xpu_gloo"
    assert dist.is_backend_available("xpu_gloo")


def check_names_of_backends():
    for name in ("xpu_gloo", "XPU_GLOO", "cpu:gloo,xpu:xpu_gloo"):
        group = dist.new_group(backend=name)
        x = torch.ones(3, device="xpu")
        dist.all_reduce(x, group=group)
        exactly(x.cpu(), torch.full((3,), 2.0))
        dist.barrier(group)
        if "cpu" in name:
            x = torch.ones(3)
            dist.all_reduce(x, group=group)
            exactly(x, torch.full((3,), 2.0))
        dist.destroy_process_group(group)
    with_cpu_only = dist.new_group(backend="gloo")
    try:
        dist.all_reduce(torch.ones(3, device="xpu"), group=with_cpu_only)
    except RuntimeError as error:
        assert "No backend type associated with device type xpu" in str(error), error
    else:
        raise AssertionError("gloo took an XPU tensor")


def check_xccl_is_another_name():
    assert dist.is_xccl_available()
    for name in ("xccl", "cpu:gloo,xpu:xccl"):
        group = dist.new_group(backend=name, timeout=LIMIT)
        assert dist.get_backend(group) == name
        x = torch.full((3,), 1.0 + dist.get_rank(), device="xpu")
        dist.all_reduce(x, group=group)
        exactly(x.cpu(), torch.full((3,), 3.0))
        dist.barrier(group)
        dist.destroy_process_group(group)


def check_barrier():
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        store.set("before the barrier", "1")
    dist.barrier()
    assert store.check(["before the barrier"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.barrier(device_ids=[torch.xpu.current_device()])
    assert dist.barrier(async_op=True).wait()


def check_objects():
    mine = {"rank": dist.get_rank(), "tensor": torch.ones(2, device="xpu")}
    found = [None] * SIZE
    dist.all_gather_object(found, mine)
    assert [each["rank"] for each in found] == [0, 1], found
    assert found[1]["tensor"].is_xpu
    found = [mine["rank"]]
    dist.broadcast_object_list(found, src=1)
    assert found == [1], found


# Order, lifetime and threads


def check_stream_is_waited_for():
    big = torch.arange(1 << 22, dtype=torch.float32).pin_memory()
    noise = torch.zeros_like(big).pin_memory()
    x = torch.zeros(big.shape, device="xpu")
    with torch.xpu.stream(torch.xpu.Stream()):
        for source in (noise,) * 8 + (big,):
            x.copy_(source, non_blocking=True)
        dist.all_reduce(x)
        y = x.to("cpu")
    exactly(y, big * 2)


def check_other_devices_than_the_current():
    x = torch.ones(3, device=f"xpu:{COUNT - 1}")
    with torch.xpu.device(0):
        dist.all_reduce(x)
    exactly(x.cpu(), torch.full((3,), 2.0))


def check_tensors_are_kept_alive():
    gc.collect()
    before = torch.xpu.memory_allocated()
    works = []
    for _ in range(20):
        x = torch.full((10_000,), 1.0, device="xpu")
        works.append(dist.all_reduce(x, async_op=True))
        del x
        torch.full((10_000,), 5.0, device="xpu")  # would take the memory
    for work in works:
        work.wait()
        exactly(work.result()[0].cpu(), torch.full((10_000,), 2.0))
    del works, work
    dist.barrier()
    gc.collect()
    # The last work is dropped on gloo's thread, right after it is done.
    end = time.monotonic() + START / 2
    while torch.xpu.memory_allocated() > before:
        assert time.monotonic() < end, torch.xpu.memory_allocated() - before
        os.sched_yield()


def in_threads(function, count=4):
    results = []

    def run():
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def check_several_threads_wait():
    rank = dist.get_rank()
    for _ in range(20):
        x = torch.ones(1000, device="xpu")
        work = dist.all_reduce(x, async_op=True)
        assert in_threads(work.wait) == [True] * 4
        exactly(x.cpu(), torch.full((1000,), 2.0))
        work = (dist.isend if rank == 0 else dist.irecv)(x.add_(rank), 1 - rank)
        assert in_threads(work.wait) == [True] * 4
        exactly(x.cpu(), torch.full((1000,), 2.0))


def check_future():
    x = torch.ones(1000, device="xpu")
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future().then(lambda each: each.value()[0] * 3)
    exactly(future.wait().cpu(), torch.full((1000,), 6.0))
    assert work.get_future().value()[0].data_ptr() == x.data_ptr()


def check_versions_are_those_of_gloo():
    x, y = torch.ones(3), torch.ones(3, device="xpu")
    gloo = dist.new_group(backend="gloo")
    dist.all_reduce(x, group=gloo)
    dist.all_reduce(y)
    assert y._version == x._version, (x._version, y._version)


def check_tensors_with_gaps():
    # gloo would take the first elements in memory.
    whole = torch.arange(6.0, device="xpu")
    dist.all_reduce(whole[::2])
    exactly(whole.cpu(), torch.tensor([0.0, 1, 4, 3, 8, 5]))
    outputs = torch.zeros(SIZE, 6, device="xpu")
    dist.all_gather([outputs[0, ::2], outputs[1, 1::2]], whole[1::2])
    exactly(outputs.cpu(), torch.tensor([[1.0, 0, 3, 0, 5, 0], [0, 1, 0, 3, 0, 5]]))
    other = 1 - dist.get_rank()
    for work in (dist.isend(whole[::2], other), dist.irecv(outputs[0, ::2], other)):
        work.wait()
    exactly(outputs[0].cpu(), torch.tensor([0.0, 0, 4, 0, 8, 0]))


def check_elements_count_and_not_shapes():
    group = dist.group.WORLD
    for whole, part in (((SIZE, 3), (3,)), ((6 * SIZE,), (2, 3)), ((SIZE,), ()), ((SIZE,), (1, 1))):
        mine = torch.full(part, dist.get_rank() + 1.0, device="xpu")
        gathered = [torch.zeros(whole, device="xpu") for _ in range(2)]
        dist.all_gather_into_tensor(gathered[0], mine)
        group.allgather_into_tensor_coalesced(gathered[1:], [mine]).wait()
        scattered = [torch.zeros(part, device="xpu") for _ in range(2)]
        dist.reduce_scatter_tensor(scattered[0], gathered[0])
        group.reduce_scatter_tensor_coalesced(scattered[1:], gathered[1:]).wait()
        for each in gathered:
            exactly(each.flatten().cpu(), torch.tensor([1.0, 2.0]).repeat_interleave(mine.numel()))
        for each in scattered:
            exactly(each, SIZE * mine)


def check_who_does_not_come():
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == 1:
        return
    x = torch.ones(3, device="xpu")
    work = dist.all_reduce(x, group=group, async_op=True)
    errors = in_threads(work.wait)
    assert all("Timed out" in str(error) for error in errors), errors
    future = work.get_future()
    with contextlib.suppress(RuntimeError):
        future.wait()
        raise AssertionError("the future has no error")


# Models


def model_and_data():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to("xpu")
    return model, torch.randn(6, 8), torch.randn(6, 4)


def mine(tensor):
    return tensor.chunk(SIZE)[dist.get_rank()].to("xpu")


def train(model, optimizer, x, y, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def trained_alone():
    model, x, y = model_and_data()
    train(model, torch.optim.SGD(model.parameters(), 0.1), x.to("xpu"), y.to("xpu"))
    return model


def check_ddp():
    model, x, y = model_and_data()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(dist.get_rank())  # process 0 tells the others
    model = DistributedDataParallel(model, bucket_cap_mb=0.0001)
    train(model, torch.optim.SGD(model.parameters(), 0.1), mine(x), mine(y))
    for found, expected in zip(model.parameters(), trained_alone().parameters()):
        assert_close(found, expected)
        assert_close(found.grad, expected.grad)


def check_ddp_with_a_hook():
    model, x, y = model_and_data()
    model = DistributedDataParallel(model)
    model.register_comm_hook(None, fp16_compress_hook)
    train(model, torch.optim.SGD(model.parameters(), 0.1), mine(x), mine(y))
    for found, expected in zip(model.parameters(), trained_alone().parameters()):
        assert_close(found, expected, rtol=1e-3, atol=1e-3)


def check_sync_batch_norm():
    parts = {
        "halves": [3, 3],
        "different sizes": [5, 1],
        "nothing for one": [6, 0],
    }
    # A float16 input is compared with what float32 gives for its values.
    for (name, sizes), dtype, affine, momentum in itertools.product(
        parts.items(), (torch.float32, torch.float64, torch.float16), (True, False), (0.1, None)
    ):
        if dtype == torch.float16 and 0 in sizes:
            continue  # PyTorch gathers float16 from one and float32 from the other
        torch.manual_seed(0)
        inputs, grads = torch.randn(2, 6, 4, 5, 2).to(dtype)
        accurate = dtype if dtype == torch.float64 else torch.float32
        one = nn.BatchNorm2d(4, affine=affine, momentum=momentum, dtype=accurate)
        if affine:
            nn.init.normal_(one.weight)
            nn.init.normal_(one.bias)
        two = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(one)).to("xpu")
        rank = dist.get_rank()
        tolerance = {"rtol": 0, "atol": 0.02} if dtype == torch.float16 else {}
        for _ in range(2):
            whole = inputs.to(accurate).clone().requires_grad_()
            expected = one(whole)
            expected.backward(grads.to(accurate))
            part = inputs.split(sizes)[rank].to("xpu").requires_grad_()
            found = two(part)
            assert found.dtype == dtype
            found.backward(grads.split(sizes)[rank].to("xpu"))
            for x, y in ((found, expected), (part.grad, whole.grad)):
                if x is None:
                    assert sizes[rank] == 0
                    continue
                assert_close(x.cpu().to(accurate), y.detach().split(sizes)[rank], **tolerance)
            for x, y in zip(two.parameters(), one.parameters()):
                grad = torch.zeros_like(x) if x.grad is None else x.grad
                dist.all_reduce(grad)
                assert_close(grad.cpu(), y.grad, **tolerance)
            for x, y in zip(two.buffers(), one.buffers()):
                assert_close(x.cpu(), y, **tolerance)
            if affine:
                one.zero_grad()
                two.zero_grad()


def check_fully_shard():
    model, x, y = model_and_data()
    mesh = init_device_mesh("xpu", (SIZE,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    train(model, torch.optim.SGD(model.parameters(), 0.1), mine(x), mine(y))
    for found, expected in zip(model.parameters(), trained_alone().parameters()):
        assert found.to_local().is_xpu
        assert_close(found.full_tensor(), expected)
        assert_close(found.grad.full_tensor(), expected.grad)


def check_dtensor():
    mesh = init_device_mesh("xpu", (SIZE,))
    torch.manual_seed(0)
    a, b = torch.randn(4, 6).to("xpu"), torch.randn(6, 4).to("xpu")
    rows = distribute_tensor(a, mesh, [Shard(0)])
    columns = distribute_tensor(a, mesh, [Shard(1)])
    assert rows.to_local().device == torch.device("xpu", torch.xpu.current_device())
    exactly(rows.to_local(), a.chunk(SIZE)[dist.get_rank()])
    exactly(rows.redistribute(mesh, [Replicate()]).to_local(), a)
    exactly(rows.redistribute(mesh, [Shard(1)]).full_tensor(), a)
    assert_close((columns @ distribute_tensor(b, mesh, [Shard(0)])).full_tensor(), a @ b)
    assert_close(rows.sum().full_tensor(), a.sum())


# Pairs of processes


def serve(rank, connection):
    """Does the checks that it is told to."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.xpu.set_device(rank % COUNT)
    dist.init_process_group(timeout=LIMIT)
    for name in iter(connection.recv, None):
        try:
            globals()[name]()
            connection.send("")
        except Exception:
            connection.send(f"in process {rank}: {traceback.format_exc()}")
    dist.destroy_process_group()


def lose_one(rank, connection):
    """Process 1 dies, and process 0 says what it is told of that."""
    torch.xpu.set_device(rank % COUNT)
    dist.init_process_group("cpu:gloo,xpu:xpu_gloo", timeout=LIMIT)
    check_ddp()
    x = torch.ones(3, device="xpu")
    if rank == 1:
        os._exit(7)
    try:
        dist.all_reduce(x)
        connection.send("no error")
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
    os._exit(0)


class Pair:
    """Two processes that run a function."""

    def __init__(self, function):
        context = multiprocessing.get_context("spawn")
        # Both processes connect to this one, so that there is a port which is free.
        self.store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        environment = {
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(self.store.port),
            "WORLD_SIZE": str(SIZE),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        self.connections, self.processes = [], []
        for rank in range(SIZE):
            ours, theirs = context.Pipe()
            process = context.Process(target=function, args=(rank, theirs))
            with mock.patch.dict(os.environ, environment, RANK=str(rank)):
                process.start()
            theirs.close()
            self.connections.append(ours)
            self.processes.append(process)

    def receive(self, rank):
        connection = self.connections[rank]
        if not connection.poll(START):
            raise AssertionError(f"process {rank} does not answer")
        try:
            return connection.recv()
        except EOFError:
            self.processes[rank].join(START)
            raise AssertionError(
                f"process {rank} is gone: {self.processes[rank].exitcode}"
            ) from None

    def run(self, name):
        for connection in self.connections:
            connection.send(name)
        return "\n".join(filter(None, map(self.receive, range(SIZE))))

    def close(self):
        """The exit codes; None for a process that had to be killed."""
        for process in self.processes:
            process.join(START)
        codes = [process.exitcode for process in self.processes]
        for process in self.processes:
            process.kill()
        return codes


@needs_device
class TestDistributed(TestCase):
    """A test for each function check_..."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pair = Pair(serve)

    @classmethod
    def tearDownClass(cls):
        for connection in cls.pair.connections:
            with contextlib.suppress(OSError):
                connection.send(None)
        codes = cls.pair.close()
        super().tearDownClass()
        if codes != [0] * SIZE:
            raise AssertionError(f"the processes ended with {codes}")


def add_tests():
    for name in [name for name in globals() if name.startswith("check_")]:

        def test(self, name=name):
            failed = self.pair.run(name)
            self.assertFalse(failed, failed)

        setattr(TestDistributed, name.replace("check", "test", 1), test)


add_tests()


@needs_device
class TestLostProcess(TestCase):
    def test_a_process_dies_in_a_group_with_a_backend_for_each_device(self):
        pair = Pair(lose_one)
        error = pair.receive(0)
        self.assertRegex(error, "(?i)connection (closed|reset) by peer|connection refused")
        self.assertEqual(pair.close(), [0, 7])


def end_while_gloo_is_busy(rank, connection):
    """Process: ends, with its group, while a thread of gloo's calls Python."""
    dist.init_process_group()
    alone, _ = dist.new_subgroups(1)
    main, busy = threading.get_ident(), threading.Event()

    def call(_):
        if threading.get_ident() != main and not busy.is_set():
            busy.set()
            time.sleep(1)  # so long that Python would end meanwhile

    while not busy.is_set():
        x = torch.ones(1, device="xpu")
        dist.all_reduce(x, group=alone, async_op=True).get_future().then(call)
    connection.send("ends")


@needs_device
class TestEnd(TestCase):
    def test_a_process_ends_while_a_thread_of_gloo_calls_python(self):
        pair = Pair(end_while_gloo_is_busy)
        self.assertEqual(pair.close(), [0] * SIZE)


@needs_two
class TestDataParallel(TestCase):
    def tensors(self):
        return [torch.randn(3), torch.randn(2, 2), torch.randn(2, dtype=torch.complex64)]

    def test_broadcast(self):
        for source in ("cpu", "xpu:0", "xpu:1"):
            x = torch.randn(3).to(source)
            for index, y in enumerate(comm.broadcast(x, [0, 1])):
                self.assertEqual(y.device, torch.device("xpu", index))
                exactly(y.cpu(), x.cpu())
            out = [torch.empty(3, device="xpu:0"), torch.empty(3, device="xpu:1")]
            for y in comm.broadcast(x, out=out):
                exactly(y.cpu(), x.cpu())

    def test_broadcast_and_reduce_coalesced(self):
        tensors = [each.to("xpu:0") for each in (torch.randn(3), torch.randn(2, 2))]
        copies = comm.broadcast_coalesced(tensors, [0, 1])
        for index, each in enumerate(copies):
            self.assertEqual([y.device.index for y in each], [index] * 2)
        for y, x in zip(comm.reduce_add_coalesced(copies, 1), tensors):
            self.assertEqual(y.device, torch.device("xpu:1"))
            exactly(y.cpu(), 2 * x.cpu())

    def test_scatter_and_gather(self):
        x = torch.randn(5, 4)
        for source in ("cpu", "xpu:0", "xpu:1"):
            for dim in (0, 1):
                parts = comm.scatter(x.to(source), [0, 1], dim=dim)
                self.assertEqual([part.device.index for part in parts], [0, 1])
                exactly(comm.gather(parts, dim, 1).cpu(), x)
                exactly(comm.gather(parts, dim).cpu(), x)
                exactly(comm.gather(parts, dim, "cpu"), x)
                out = torch.empty(5, 4, device="xpu:1")
                exactly(comm.gather(parts, dim, out=out).cpu(), x)
                exactly(out.cpu(), x)
        parts = comm.scatter(x.to("xpu:0"), [1, 0], [4, 1])
        self.assertEqual([part.size(0) for part in parts], [4, 1])
        self.assertEqual([part.device.index for part in parts], [1, 0])
        out = [torch.empty(2, 4, device="xpu:1"), torch.empty(3, 4, device="xpu:0")]
        exactly(comm.gather(comm.scatter(x, out=out), 0).cpu(), x)
        streams = [torch.xpu.Stream(device) for device in (0, 1)]
        parts = comm.scatter(x, [0, 1], streams=streams)
        for stream in streams:
            stream.synchronize()
        exactly(comm.gather(parts, 0).cpu(), x)

    def test_model(self):
        model, x, y = model_and_data()
        parallel = DataParallel(copy.deepcopy(model))
        self.assertEqual(parallel.device_ids[:2], [0, 1])
        devices = set()
        parallel.module[0].register_forward_hook(
            lambda module, inputs, output: devices.add(output.device.index)
        )
        for each in (model, parallel):
            train(each, torch.optim.SGD(each.parameters(), 0.1), x.to("xpu"), y.to("xpu"))
        self.assertEqual(devices, {0, 1})
        for found, expected in zip(parallel.module.parameters(), model.parameters()):
            assert_close(found, expected)
            assert_close(found.grad, expected.grad)


if __name__ == "__main__":
    run_tests()
