# SPDX-License-Identifier: MIT
# Builds the simulated CUDA runtime, $(B)/sim/libcudart.so.13, and the kernels of kernels/ as host
# code, $(B)/sim/kernels/NAME.so.

RUNTIME_HEADERS := $(wildcard tests/sim/runtime/*.h tests/sim/runtime/*.def)
RUNTIME_ONCE := $(wildcard tests/sim/runtime/*.c)
RUNTIME_TWICE := $(wildcard tests/sim/runtime/streams/*.c)
RUNTIME_OBJ := $(RUNTIME_ONCE:%.c=$(B)/%.o) $(RUNTIME_TWICE:%.c=$(B)/%.o) \
               $(RUNTIME_TWICE:%.c=$(B)/%.ptds.o)

# The public headers have to show their own names, so the flags of the library do not fit here.
RUNTIME_COMPILE = $(CC) -D_GNU_SOURCE -isystem $(CUDA_HOME)/include $(CFLAGS) -std=gnu11 -fPIC \
                  -pthread $(WARNINGS)

$(B)/tests/sim/runtime/%.ptds.o: tests/sim/runtime/%.c $(RUNTIME_HEADERS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(RUNTIME_COMPILE) -DRT_PER_THREAD=1 -c -o $@ $<

$(B)/tests/sim/runtime/%.o: tests/sim/runtime/%.c $(RUNTIME_HEADERS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(RUNTIME_COMPILE) -c -o $@ $<

$(B)/sim/libcudart.so.13: $(RUNTIME_OBJ) tests/sim/runtime/exports.map
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -pthread -Wl,-soname,libcudart.so.13 -Wl,-Bsymbolic-functions \
	    -Wl,--version-script=tests/sim/runtime/exports.map -Wl,-z,defs $(LDFLAGS) -o $@ \
	    $(RUNTIME_OBJ) -ldl

# They ask the simulated driver for its tables, so it is their DT_NEEDED; a program has loaded it
# by then.  -Bsymbolic keeps a program's host stub from standing in for the kernel of its name.
$(B)/sim/kernels/%.so: tests/sim/kernels/%.cpp tests/sim/device_grid.cpp \
                       $(wildcard kernels/*.cuh tests/gpu/*.cuh tests/sim/device*.h) \
                       tests/sim/sim.h $(B)/sim/libcuda.so.1
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -Itests/sim -Ikernels -isystem $(CUDA_HOME)/include $(CXXFLAGS) -std=gnu++17 -fPIC \
	    -fno-strict-aliasing -Wall -Wextra -Wshadow $(if $(filter 1,$(WERROR)),-Werror) -shared \
	    -Wl,-Bsymbolic $(LDFLAGS) -o $@ $< tests/sim/device_grid.cpp -L$(B)/sim -l:libcuda.so.1
