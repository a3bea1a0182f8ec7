# Builds the simulated GPU's driver, $(B)/sim/libcuda.so.1. Included by the top Makefile, which sets CC, CFLAGS, CUDA_HOME
# and B.
SIM_DRIVER_DIR := tests/sim/driver
SIM_DRIVER_SOURCES := $(sort $(wildcard $(SIM_DRIVER_DIR)/*.c))
SIM_DRIVER_OBJECTS := $(patsubst $(SIM_DRIVER_DIR)/%.c,$(B)/sim/driver/%.o,$(SIM_DRIVER_SOURCES)) $(B)/sim/driver/stubs.o
SIM_DRIVER_FLAGS := -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Wshadow -Wstrict-prototypes \
    -Wmissing-prototypes -Wpointer-arith -Wvla -Werror -MMD -MP -I$(SIM_DRIVER_DIR) -isystem $(CUDA_HOME)/include

.PHONY: sim-driver
sim-driver: $(B)/sim/libcuda.so.1

$(B)/sim/libcuda.so.1: $(SIM_DRIVER_OBJECTS)
	$(CC) $(CFLAGS) -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic-functions -Wl,-z,defs -o $@ $^ -ldl

$(B)/sim/driver/%.o: $(SIM_DRIVER_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SIM_DRIVER_FLAGS) -c -o $@ $<

$(B)/sim/driver/stubs.c: tests/sim/stubs.awk $(SIM_DRIVER_DIR)/versions.def tests/preload/driver-requests.tsv
	@mkdir -p $(@D)
	awk -f $^ > $@

$(B)/sim/driver/stubs.o: $(B)/sim/driver/stubs.c
	$(CC) $(CFLAGS) $(SIM_DRIVER_FLAGS) -c -o $@ $<

-include $(SIM_DRIVER_OBJECTS:.o=.d)
