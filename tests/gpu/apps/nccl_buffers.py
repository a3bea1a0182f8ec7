# SPDX-License-Identifier: MIT
"""Buffers that are registered with NCCL, and as windows of symmetric memory: a tensor's and those
of ncclMemAlloc, by NCCL's own calls; and PyTorch's symmetric memory.  One process for each of two
GPUs, or a single one.
"""

import ctypes
import os

import app

FLOAT32, SUM, AVERAGE, SYMMETRIC = 7, 0, 4, 1  # as nccl.h numbers them
# Multicast is a thing of switches between GPUs, and not what this is about.
WITHOUT_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}


class UniqueId(ctypes.Structure):
    """The id by which the ranks of a communicator find each other."""

    _fields_ = [("internal", ctypes.c_char * 128)]


class Memory:
    """Memory that is no tensor's, as numba and CuPy describe theirs."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,),
                                         "typestr": "<f4", "version": 3}


def buffer(tensor):
    """A tensor's address and size, as arguments."""
    return ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes)


class Rank:
    """One rank's NCCL; what each of its calls returned is kept."""

    def __init__(self, torch, number, world):
        self.torch, self.number, self.world = torch, number, world
        self.library = ctypes.CDLL("libnccl.so.2")  # the one that PyTorch has loaded
        self.said = []
        self.opened = ctypes.c_void_p()

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        self.said.append(f"{name} {code}")
        return code

    def open(self):
        """A communicator of its own for each buffer: one that failed is not used again."""
        name = UniqueId()
        if self.number == 0:
            self.call("ncclGetUniqueId", ctypes.byref(name))
        names = [bytes(name)]
        self.torch.distributed.broadcast_object_list(names, src=0)
        self.opened = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.byref(self.opened), self.world,
                  UniqueId.from_buffer_copy(names[0]), self.number)

    def close(self):
        self.torch.cuda.synchronize()
        self.call("ncclCommDestroy", self.opened)

    def exchange(self, tensor):
        """A sum in place, a mean, and what all ranks have, of a registered buffer's three parts."""
        own, mean, parts = tensor.tensor_split((tensor.numel() // 4, tensor.numel() // 2))
        own.copy_(self.torch.arange(own.numel(), dtype=self.torch.float32).remainder_(97)
                  .mul_(self.number + 1))
        count, stream = ctypes.c_size_t(own.numel()), None
        at, mean_at, parts_at = (ctypes.c_void_p(part.data_ptr()) for part in (own, mean, parts))
        self.torch.cuda.synchronize()
        self.call("ncclAllReduce", at, at, count, FLOAT32, SUM, self.opened, stream)
        self.call("ncclAllReduce", at, mean_at, count, FLOAT32, AVERAGE, self.opened, stream)
        self.call("ncclAllGather", at, parts_at, count, FLOAT32, self.opened, stream)
        self.torch.cuda.synchronize()
        return tensor.cpu()

    def registered(self, tensor):
        handle = ctypes.c_void_p()
        self.open()
        self.call("ncclCommRegister", self.opened, *buffer(tensor), ctypes.byref(handle))
        found = self.exchange(tensor)
        self.call("ncclCommDeregister", self.opened, handle)
        self.close()
        return found

    def windowed(self, tensor):
        window = ctypes.c_void_p()
        self.open()
        found = tensor.cpu()
        if self.call("ncclCommWindowRegister", self.opened, *buffer(tensor), ctypes.byref(window),
                     SYMMETRIC) == 0:
            found = self.exchange(tensor)
            self.call("ncclCommWindowDeregister", self.opened, window)
        self.close()
        return found


def symmetric(torch, device, count):
    """PyTorch's symmetric memory, met by all ranks: what a rank finds in its own part."""
    memory = app.packages("torch.distributed._symmetric_memory")
    tensor = memory.empty(count, dtype=torch.float32, device=device)
    tensor.fill_(3)
    handle = memory.rendezvous(tensor, torch.distributed.group.WORLD.group_name)
    handle.barrier()
    return handle.get_buffer(handle.rank, (count,), torch.float32).mul(2).cpu()


def rank(number, world, store, chosen):
    """The work of one process; the first prints the result."""
    torch, device = app.torch_for(chosen, number)
    torch.cuda.set_device(device)
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=world)
    count = chosen.mib * app.MIB // 4 // 8 * 8
    nccl = Rank(torch, number, world)
    extra = ctypes.c_void_p()
    nccl.call("ncclMemAlloc", ctypes.byref(extra), ctypes.c_size_t(count * 4))
    memory = torch.as_tensor(Memory(extra.value, count), device=device).zero_()
    assert memory.data_ptr() == extra.value

    def work(step):
        del nccl.said[1:]
        tensor = torch.full((count,), float(step), device=device)
        return [nccl.registered(tensor), nccl.registered(memory), nccl.windowed(tensor),
                nccl.windowed(memory)]

    seconds, found = app.timed(chosen.steps, torch.cuda.synchronize, work)
    try:
        found.append(symmetric(torch, device, count))
    except RuntimeError as error:
        nccl.said.append(f"symmetric memory: {type(error).__name__}")
    nccl.call("ncclMemFree", extra)
    if number == 0:
        app.say(f"{app.digest(*found)}; {', '.join(nccl.said)}", seconds)
    dist.barrier()
    dist.destroy_process_group()


def main():
    os.environ |= WITHOUT_MULTICAST
    chosen = app.options(__doc__, mib=64, steps=2, world=2)
    torch = app.packages("torch")
    if chosen.device == "cpu" or not torch.distributed.is_nccl_available():
        app.skip("NCCL needs a GPU, and a PyTorch that has it")
    world = min(chosen.world, torch.cuda.device_count())
    app.in_ranks(torch, rank, world, chosen)


if __name__ == "__main__":
    main()
