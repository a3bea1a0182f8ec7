# SPDX-License-Identifier: MIT
"""An external sort: runs of keys go to the GPU, come back sorted into new arrays, and the host
merges samples of them."""

import app


def main():
    chosen = app.options(__doc__, runs=12, mib=64, steps=3)
    torch, device = app.torch_for(chosen)
    numpy = app.packages("numpy")
    count = chosen.mib * app.MIB // 8

    def keys(number):
        words = numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(number * count)
        words *= numpy.uint64(0x9E3779B97F4A7C15)
        return (words >> numpy.uint64(1)).view(numpy.int64)

    def sort(step):
        runs = [torch.from_numpy(keys(number + step)).to(device).sort().values.cpu().numpy()
                for number in range(chosen.runs)]
        assert all((run[1:4096] >= run[:4095]).all() for run in runs)
        return numpy.sort(numpy.concatenate([run[::64] for run in runs]))

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), sort)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
