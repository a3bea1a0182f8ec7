/* SPDX-License-Identifier: MIT */
/*
 * SIM_KERNEL and SIM_GLOBAL: make host-built kernels and variables known to the simulated driver
 * under the names that nvcc gives them, by constructors that run when the library is loaded.
 */
#ifndef SIM_DEVICE_REGISTER_H
#define SIM_DEVICE_REGISTER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device_grid.h"

namespace sim
{

/*
 * Reads one argument.  A pointer that the program passes is a device address, so the kernel gets
 * the address at which this process plays the GPU; a write where the GPU may only read faults
 * there.  Pointers inside structures and in memory are not translated.
 */
template <typename T> static T load_argument(const void *from, bool *mapped)
{
    std::remove_const_t<T> value;

    memcpy(&value, from, sizeof(value));
    if constexpr (std::is_pointer_v<T>) {
        CUdeviceptr address = (CUdeviceptr)(uintptr_t)value;
        if (address != 0) {
            value = (T)sim_gpu_pointer(address);
            *mapped = *mapped && value != nullptr;
        }
    }
    return value;
}

/* The thunk of one kernel: unpacks the arguments and runs the grid with them. */
template <typename F, F *Kernel> struct kernel;

template <typename... P, void (*Kernel)(P...)> struct kernel<void(P...), Kernel> {
    using arguments = std::tuple<std::remove_const_t<P>...>;

    static constexpr size_t count = sizeof...(P);
    static constexpr size_t sizes[sizeof...(P) + 1] = {sizeof(P)..., 0};

    static void body(void *argument)
    {
        std::apply(Kernel, *static_cast<arguments *>(argument));
    }

    template <size_t... I>
    static int run_with(void *const *args, const struct sim_launch *launch,
                        std::index_sequence<I...>)
    {
        bool mapped = true;
        arguments values{load_argument<P>(args[I], &mapped)...};

        (void)args;
        if (!mapped)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        run_grid(launch, body, &values);
        return CUDA_SUCCESS;
    }

    static int run(void *const *args, const struct sim_launch *launch)
    {
        return run_with(args, launch, std::index_sequence_for<P...>{});
    }
};

/*
 * g++ and nvcc mangle names alike, so the function's own symbol is the kernel's name.  dladdr finds
 * it because these libraries export their functions.
 */
template <typename F, F *Kernel> static void register_kernel(const char *source_name)
{
    using thunk = kernel<F, Kernel>;
    Dl_info info;

    if (dladdr(reinterpret_cast<void *>(Kernel), &info) == 0 || info.dli_sname == nullptr ||
        info.dli_saddr != reinterpret_cast<void *>(Kernel)) {
        fprintf(stderr, "SIM_KERNEL(%s): not an exported function\n", source_name);
        abort();
    }
    sim_kernel_register(info.dli_sname, thunk::run, thunk::count, thunk::sizes);
}

} // namespace sim

#define SIM_JOIN_(a, b) a##b
#define SIM_JOIN(a, b) SIM_JOIN_(a, b)
#define SIM_CONSTRUCTOR                                                                            \
    static void __attribute__((constructor)) SIM_JOIN(sim_register_, __LINE__)(void)

/* Variadic, as the name of a template's instance may hold commas. */
#define SIM_KERNEL(...)                                                                            \
    SIM_CONSTRUCTOR                                                                                \
    {                                                                                              \
        sim::register_kernel<std::remove_pointer_t<decltype(&__VA_ARGS__)>, &__VA_ARGS__>(         \
            #__VA_ARGS__);                                                                         \
    }

/* nvcc registers a __device__ or __constant__ variable under its plain name. */
#define SIM_GLOBAL(variable)                                                                       \
    SIM_CONSTRUCTOR                                                                                \
    {                                                                                              \
        sim_global_register(#variable, (void *)&variable, sizeof(variable));                       \
    }

#endif
