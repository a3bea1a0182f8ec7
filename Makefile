# SPDX-License-Identifier: MIT
# Builds libzc.so, its tests, the simulated GPU and the sample programs; `make help` lists the targets.
# Settings, on the command line or in the environment: CC, CFLAGS, CUDA_HOME, DESTDIR, PREFIX (or one by
# one LIBDIR, BINDIR, LIBEXECDIR, DATADIR, MANDIR, INCLUDEDIR, BASHDIR, ZSHDIR, FISHDIR), V=1 (show commands), DEBUG=1,
# SAN=address|thread|undefined, WERROR=1.

CUDA_HOME ?= /usr/local/cuda
PREFIX    ?= /usr/local
LIBDIR    ?= $(PREFIX)/lib
BINDIR    ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/libzc
DATADIR   ?= $(PREFIX)/share/libzc
MANDIR    ?= $(PREFIX)/share/man
INCLUDEDIR ?= $(PREFIX)/include
BASHDIR   ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR    ?= $(PREFIX)/share/zsh/site-functions
FISHDIR   ?= $(PREFIX)/share/fish/vendor_completions.d

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
SHELL := /bin/sh

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif

VERSION := $(shell sed -n 's/^\#define ZC_VERSION "\(.*\)"/\1/p' shim/base/version.h)
comma := ,
ifneq ($(filter-out address thread undefined,$(subst $(comma), ,$(SAN))),)
$(error SAN='$(SAN)': address, thread or undefined, or several of them with commas)
endif

# Builds with other code generation keep to folders of their own, so that their objects never mix.
B := build$(if $(SAN),/san-$(SAN))$(if $(filter 1,$(DEBUG)),/debug)

# Sanitizers take more than twice as long to compile at -O2.
CFLAGS ?= $(if $(filter 1,$(DEBUG)),-O0 -g3,$(if $(SAN),-O1,-O2) -g)
CXXFLAGS ?= $(CFLAGS)
ifneq ($(SAN),)
override CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer
override LDFLAGS += -fsanitize=$(SAN)
endif
ifneq ($(V),1)
Q := @
ifeq ($(findstring s,$(firstword -$(MAKEFLAGS))),)
say = @printf '  %-6s %s\n' $(1) $(2:$(CURDIR)/%=%)
endif
endif

# NVIDIA's wheels, unpacked by `make deps`, stand in for a toolkit that is not there.
DEPS ?= $(CURDIR)/build/deps
CUDA_ASKED := $(CUDA_HOME)
ifeq ($(wildcard $(CUDA_HOME)/include/cuda.h),)
override CUDA_HOME := $(DEPS)/cuda
endif
NVCC ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc 2>/dev/null) \
                    $(wildcard $(DEPS)/cuda/bin/nvcc))

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
            $(if $(filter 1,$(WERROR)),-Werror)
# The internal API version makes cuda.h declare every ABI version under its own name.
ZC_CPPFLAGS := -D_GNU_SOURCE -D__CUDA_API_VERSION_INTERNAL -Ishim -I. -isystem third_party/uthash \
               -isystem $(CUDA_HOME)/include
# Debugging information, which the build id is made of, names files from this folder on: what is
# built does not depend on where.
ZC_CFLAGS := -std=gnu11 -fPIC -fvisibility=hidden -fno-semantic-interposition \
             -ftls-model=initial-exec -pthread -ffile-prefix-map=$(CURDIR)=.
SHIPPED_LDFLAGS := -static-libgcc -Wl,-z,now,-z,relro,-z,noexecstack -Wl,--build-id=sha1
ZC_LDFLAGS := -shared $(SHIPPED_LDFLAGS) -Wl,-soname,libzc.so -Wl,--version-script=shim/exports.map \
              -Wl,-Bsymbolic-functions -Wl,-z,nodelete $(if $(SAN),,-Wl,-z,defs)
COMPILE = $(CC) $(CPPFLAGS) $(ZC_CPPFLAGS) $(CFLAGS) $(ZC_CFLAGS) $(WARNINGS)

ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
SRC := $(sort $(wildcard shim/*.c shim/*/*.c policy/*.c shim/*/*_$(ARCH).S))
# Files that end in _x86_64.c or _aarch64.c belong to that processor alone.
SRC := $(filter-out $(foreach a,$(filter-out $(ARCH),x86_64 aarch64),%_$(a).c),$(SRC))
OBJ := $(addprefix $(B)/,$(addsuffix .o,$(basename $(SRC))))

# Builds that one goal starts use all processors, unless the caller chose a number by -j.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
SUBMAKE = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
# The oldest headers that build the library, the newest, and some between.
HEADER_VERSIONS ?= 12.8 13.0 13.5

# These goals build by a make of their own, which must not make what other goals make meanwhile.
ifneq ($(filter check demo release,$(MAKECMDGOALS)),)
ifneq ($(words $(MAKECMDGOALS)),1)
.NOTPARALLEL:
endif
endif

# `check` and `demo` get what is missing before they build; these goals build nothing themselves.
NO_BUILD := clean deps dist release deps-build deps-demo deps-check docs help uninstall check check-aarch64 check-headers demo
ifneq ($(filter-out $(NO_BUILD),$(or $(MAKECMDGOALS),all)),)
ifeq ($(shell command -v $(firstword $(CC))),)
$(error no C compiler '$(CC)': install gcc or clang, or run 'make deps')
endif
ifeq ($(wildcard $(CUDA_HOME)/include/cuda.h),)
$(error no cuda.h in $(CUDA_ASKED)/include: set CUDA_HOME to a CUDA toolkit, or run 'make deps')
endif
ifeq ($(shell echo | $(CC) $(CPPFLAGS) $(CFLAGS) -E -x c - >/dev/null 2>&1 && echo 1),)
$(error '$(strip $(CC) $(CPPFLAGS) $(CFLAGS))' compiles nothing: look at these settings)
endif
endif

.PHONY: all docs
all: $(B)/libzc.so $(B)/zc-policy $(B)/zc-views   ## the library, build/libzc.so, and what the command zc needs

# Parts of `zc demo`: one program, and the simulated GPU with the program's kernel.
DEMO := $(B)/demo/gather $(B)/demo/libcuda.so.1

-include tests/sim/driver.mk tests/sim/runtime.mk kernels/kernels.mk
include tests/tests.mk
-include tests/gpu/gpu.mk

# The commands in this file, to compile and to link, are part of every recipe: another compiler or
# flag rebuilds all.  Kept as it is read, so that a tree where nothing changed has nothing to make.
define COMMAND
$(strip $(COMPILE))
$(strip $(CC) $(CFLAGS) $(ZC_LDFLAGS) $(LDFLAGS))
endef
ifneq ($(COMMAND),$(file <$(B)/command))
$(B)/command: export TEXT = $(COMMAND)
$(B)/command: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$TEXT" >$@
endif

$(B)/%.o: %.c $(B)/command
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

$(B)/shim/ledger/profile.o: policy/presets/everyday.conf  # Its text is in the library.

# A thread sanitizer's runtime calls libc's functions in these files before instrumented code can run.
ifneq ($(findstring thread,$(SAN)),)
$(addprefix $(B)/shim/,base/memory.o hook/memory.o hook/rlimit.o): override CFLAGS += -fno-sanitize=thread
endif

$(B)/%.o: %.S $(B)/command
	$(call say,AS,$@)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

$(B)/libzc.so: $(OBJ) shim/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(ZC_LDFLAGS) $(LDFLAGS) -o $@ $(OBJ)

# A sanitizer's runtime calls dlsym before instrumented code can run, so its builds go without ours.
# A test program keeps the malloc that it has; it tests what lies behind ours.
$(B)/libzc.a: $(filter-out %/hook/malloc.o $(if $(SAN),%/dlsym_$(ARCH).o),$(OBJ))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

# Answers about policy files for zc, by the library's own parser.
ZC_POLICY_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tools/policy/*.c)))
$(B)/zc-policy: $(ZC_POLICY_OBJ) $(B)/libzc.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -pie $(SHIPPED_LDFLAGS) -pthread $(LDFLAGS) -o $@ $^ -ldl

# Trials of zc on GPUs.  Of the library they have these files alone, because they run without it; and
# its ioctl(2) is the driver's as well.
ZC_VIEWS_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tools/views/*.c)) shim/base/file.c \
                  shim/base/memory.c shim/base/text.c \
                  shim/host/pagemap.c shim/memory/thread.c)
$(B)/zc-views: $(ZC_VIEWS_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -pie -rdynamic $(SHIPPED_LDFLAGS) -pthread $(LDFLAGS) -o $@ $^ -ldl

$(B)/demo/libcuda.so.1: $(SIM_DRIVER_OBJ) $(B)/tools/demo/kernel.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared $(SHIPPED_LDFLAGS) -pthread -Wl,-soname,libcuda.so.1 \
	    -Wl,-Bsymbolic-functions -Wl,-z,defs $(LDFLAGS) -o $@ $^ -ldl

# cuda.h has to show its own names here.
$(B)/demo/gather: tools/demo/gather.c kernels/gather.h kernels/common.h $(B)/demo/libcuda.so.1
	$(call say,CC,$@)
	$(Q)$(CC) -I. -isystem $(CUDA_HOME)/include $(CPPFLAGS) $(CFLAGS) -std=gnu11 -fPIE -pie \
	    -ffile-prefix-map=$(CURDIR)=. $(WARNINGS) $(SHIPPED_LDFLAGS) $(LDFLAGS) -o $@ $< \
	    $(B)/demo/libcuda.so.1 -lm

-include $(OBJ:.o=.d) $(ZC_POLICY_OBJ:.o=.d) $(ZC_VIEWS_OBJ:.o=.d) $(B)/tools/demo/kernel.d

.PHONY: deps deps-build deps-demo deps-check check check-gpu check-suites check-aarch64 check-headers demo bench \
        bench-overhead bench-host bench-reports record-install screenshots bench-shared bench-auto bench-tune bench-vmm bench-managed bench-links bench-larger bench-apps \
        soak fuzz install uninstall wheel deb dist release clean help FORCE
deps:           ## get the compilers, libraries and test tools that are missing
deps-build:     ## get what building the library takes
deps-demo:      ## get what the demo takes
deps-check:     ## get what the tests take: the same as deps
deps deps-build deps-demo deps-check:
	@CC='$(CC)' CUDA_HOME='$(CUDA_ASKED)' DEPS='$(DEPS)' scripts/deps.sh $(patsubst -%,%,$(@:deps%=%))

check: deps     ## build everything and run every test that needs no GPU
	@$(SUBMAKE) WERROR=1 tests
	@ZC_BUILD='$(B)' ZC_TIMEOUT=$${ZC_TIMEOUT:-$(if $(SAN),900,600)} tests/run.sh $(if $(SAN),$(UNIT_TESTS) $(STRESS_TESTS) $(FUZZ_REPLAYS))

# The scripts exit with 77 where they skip, for which make would exit with 2, as for a failure.
check-gpu: all tests    ## the tests on a real GPU; without one it says `skipped` and exits with 0
	@ZC_BUILD='$(B)' CUDA_HOME='$(CUDA_HOME)' tests/gpu/run.sh || [ $$? -eq 77 ]

# Their files come from whoever runs it: a folder for each suite.
check-suites: all       ## other projects' test suites (SUITES=FOLDER) bare and under policies, on a GPU
	@cd tests && ZC_BUILD='$(B)' python3 -B -m gpu.suites '$(if $(SUITES),$(abspath $(SUITES)))' $(SUITE_ARGS)

check-aarch64:  ## some of the tests on aarch64, under qemu; without its tools `skipped`, and 0
	@tests/aarch64/run.sh || [ $$? -eq 77 ]

check-mutants: all tests  ## which changes of a line in the library no test sees (MUTANTS=200)
	@cd tests && python3 -B -m mutants '$(B)'

mutants-measure: all tests  ## which tests run which lines, for check-mutants
	@cd tests && python3 -B -m mutants '$(B)' measure

# The wrappers are the same with each; `newest` are those that pip finds, maybe newer than the list.
check-headers:  ## build against the headers of other CUDA versions (downloads them), and look for new calls
	$(Q)for v in $(HEADER_VERSIONS) newest; do \
	    { [ $$v != newest -a -e $(DEPS)/cuda-$$v ] || DEPS='$(DEPS)' scripts/deps.sh headers $$v; } && \
	    $(SUBMAKE) B=$(B)/cuda-$$v CUDA_HOME=$(DEPS)/cuda-$$v WERROR=1 all && \
	    python3 -B tests/driver_names.py missing $$v $(DEPS)/cuda-$$v/include && \
	    nm -D --defined-only $(B)/cuda-$$v/libzc.so | cut -d ' ' -f 3 | sort >$(B)/cuda-$$v/exports && \
	    cmp $(B)/cuda-$(firstword $(HEADER_VERSIONS))/exports $(B)/cuda-$$v/exports || exit 1; \
	done

# If nothing is built yet, the demo's own build spares a third of the time: compilers do less.
QUICK := $(if $(wildcard $(B)/libzc.so),$(B),$(B)/quick)
QUICK_FLAGS := $(if $(wildcard $(B)/libzc.so),,B=$(QUICK) $(if $(filter file,$(origin CFLAGS)),CFLAGS=-O1))
demo: deps-demo ## an unmodified program, bare and under two policies, and what it moved
	@echo 'Building what the demo runs.'
	@$(SUBMAKE) -s $(QUICK_FLAGS) $(QUICK)/libzc.so $(DEMO:$(B)/%=$(QUICK)/%)
	@ZC_BUILD='$(QUICK)' python3 -B scripts/zc demo -o '$(B)/zc-demo'

bench-overhead: all sim benches   ## what libzc costs a call, a launch, a process
	@ZC_BUILD='$(B)' tests/bench/overhead.sh

bench-host: all $(PRELOAD_PROGRAMS)   ## host memory against its goals; without a GPU what needs none
	@ZC_BUILD='$(B)' tests/bench/host.sh

bench-vmm: all $(PRELOAD_PROGRAMS)      ## vmm against its goals, on a GPU
bench-managed: all $(PRELOAD_PROGRAMS)  ## managed against its goals, on a GPU
bench-vmm bench-managed:
	@ZC_BUILD='$(B)' tests/bench/places.py $(@:bench-%=%)

bench: all kernels $(if $(SIM),sim)  ## the experiments of kernels/ on a GPU, side by side; SIM=1: simulated
	@SIM='$(SIM)' ZC_BUILD='$(B)' OUT_DIR='$(B)/bench' tests/bench/run.sh classic
	$(if $(SIM),,@tests/bench/run.sh keep '$(B)/bench/classic.json')

bench-apps: all              ## people's programs (PyTorch, JAX, CuPy ...) bare and under presets, on a GPU; QUICK=1: in 500 s
	@ZC_BUILD='$(B)' OUT_DIR='$(B)/bench' tests/bench/run.sh apps $(if $(QUICK),--quick)
	@tests/bench/run.sh keep '$(B)/bench/apps.json'

bench-links: all             ## large copies over the links of several GPUs, on 2 of one host or more
bench-larger: all            ## a model twice as large as what it may have of the GPU, against accelerate's offload
bench-links bench-larger:
	@ZC_BUILD='$(B)' OUT_DIR='$(B)/bench' tests/bench/run.sh $(@:bench-%=%)
	@tests/bench/run.sh keep '$(B)/bench/$(@:bench-%=%).json'

bench-tune: all kernels $(if $(SIM),sim)  ## zc tune against an exhaustive search, on a GPU; SIM=1: simulated
	@SIM='$(SIM)' ZC_BUILD='$(B)' OUT_DIR='$(B)/bench' tests/bench/run.sh tune
	$(if $(SIM),,@tests/bench/run.sh keep-tune '$(B)/bench/tune.jsonl')

bench-reports: all sim $(PRELOAD_PROGRAMS)  ## zc report, pack and export of the logs of 10,000 ranks
	@ZC_BUILD='$(B)' python3 -B tests/bench/many_ranks.py

record-install: all kernels sim wheel deb    ## what a newcomer sees in bare systems, for docs/install.md
	@ZC_BUILD='$(B)' ZC_SCREENSHOTS='$(CURDIR)/docs' tests/bench/first_value.sh '$(PACKAGE_OUT)'

screenshots: all sim         ## the pictures of a report and its page, docs/report*.png, by Chromium
	$(Q)$(CC) -g -O1 -isystem $(CUDA_HOME)/include -o $(B)/train tests/tools/train.c $(B)/sim/libcuda.so.1
	@export LD_LIBRARY_PATH='$(abspath $(B))/sim' ZC_BUILD='$(abspath $(B))'; \
	for python in python3 /usr/bin/python3; do \
	    $$python -B tests/tools/screenshots.py '$(B)/train' docs; status=$$?; \
	    [ $$status -eq 77 ] || exit $$status; \
	done; echo 'no Chromium with Selenium: make deps'; exit 1

bench-shared: all kernels $(if $(SIM),sim)   ## programs under `shared` against their goals, and its presets by phases
	@SIM='$(SIM)' ZC_BUILD='$(B)' tests/bench/run.sh shared
	@SIM='$(SIM)' ZC_BUILD='$(B)' tests/bench/run.sh presets --rounds 2

bench-auto: all kernels $(if $(SIM),sim)     ## programs under ZC_POLICY=auto, after two runs to learn from, against everyday and bare
	@SIM='$(SIM)' ZC_BUILD='$(B)' tests/bench/run.sh auto --warm 2 --rounds $(if $(SIM),1,5)
	$(if $(SIM),,@ZC_BUILD='$(B)' tests/bench/run.sh auto-apps --warm 2 --rounds 5)

soak: all sim gpu-tests $(PRELOAD_PROGRAMS)   ## random programs for SOAK_SECONDS (an hour), and what has grown
	@ZC_BUILD='$(B)' python3 -B tests/soak.py

fuzz: $(FUZZERS)    ## fuzz the parsers, FUZZ_SECONDS each (clang)
	$(Q)for f in $(patsubst $(B)/tests/fuzz/%_fuzz,%,$(FUZZERS)); do \
	    mkdir -p $(B)/tests/fuzz/$$f.found && \
	    $(B)/tests/fuzz/$${f}_fuzz -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	        -artifact_prefix=$(B)/tests/fuzz/$$f. $(B)/tests/fuzz/$$f.found tests/fuzz/corpus/$$f \
	        || exit 1; \
	done

# One table for install and uninstall: folder, mode, files.  The packages are installations, too.
STAGE := $(B)/install
ZCLIB := $(shell find scripts/zclib -type f ! -path '*/__pycache__/*' | LC_ALL=C sort)
MAN := $(wildcard docs/man/*.[1-8])
# Made by the command itself, from its parsers and from the keys that zc-policy knows.  What is built
# for another processor does not run here, so that these are made by a build for this one.
HOST_B := $(if $(filter $(ARCH),$(shell uname -m)),$(B),build/host)
COMPLETIONS := $(addprefix $(HOST_B)/completion/,$(if $(shell command -v python3),zc.bash/zc zc.zsh/_zc zc.fish/zc.fish))
INSTALLED := $(LIBDIR):755:$(B)/libzc.so \
             $(BINDIR):755:$(STAGE)/zc \
             $(LIBEXECDIR):755:$(B)/zc-policy \
             $(LIBEXECDIR):755:$(B)/zc-views \
             $(INCLUDEDIR):644:include/zc.h \
             $(DATADIR):644:$(STAGE)/installed \
             $(foreach f,$(ZCLIB),$(DATADIR)/$(patsubst scripts/%/,%,$(dir $(f))):644:$(f)) \
             $(DATADIR)/libzc:644:scripts/libzc/__init__.py \
             $(foreach f,$(MAN),$(MANDIR)/man$(subst .,,$(suffix $(f))):644:$(f)) \
             $(join $(BASHDIR) $(ZSHDIR) $(FISHDIR),$(COMPLETIONS:%=:644:%)) \
             $(patsubst %,$(DATADIR):644:%,$(wildcard policy/policy.conf)) \
             $(patsubst %,$(DATADIR)/presets:644:%,$(wildcard policy/presets/*.conf))
# The packages have the demo as well, which a source tree need not build to be installed.
INSTALLED += $(if $(WITH_DEMO),$(LIBEXECDIR)/demo:755:$(B)/demo/gather \
                               $(LIBEXECDIR)/demo:644:$(B)/demo/libcuda.so.1)
field = $(word $(1),$(subst :, ,$(2)))

# A folder is one field of this table, and stands in a line of Python.
unfit = $(filter-out 1,$(words $(1)))$(filter-out /%,$(1))$(strip \
    $(foreach c,: ' " | &,$(findstring $(c),$(1))))
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
$(foreach f,LIBDIR BINDIR LIBEXECDIR DATADIR MANDIR INCLUDEDIR BASHDIR ZSHDIR FISHDIR,$(if $(call unfit,$($(f))),\
    $(error $(f)='$($(f))': give it, or PREFIX, an absolute path without blanks, colons and quotes)))
endif

# The command with the folder of its parts, and where the other folders are, seen from that one:
# an installation can be moved as a whole, and unpacked anywhere.
$(STAGE)/zc: scripts/zc FORCE
	@mkdir -p $(@D)
	@sed 's|^INSTALLED = .*|INSTALLED = "$(DATADIR)"|' $< > $@

$(STAGE)/installed: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' 'version=$(VERSION)' \
	    "lib=$$(realpath -ms --relative-to='$(DATADIR)' '$(LIBDIR)')" \
	    "libexec=$$(realpath -ms --relative-to='$(DATADIR)' '$(LIBEXECDIR)')" > $@

ifneq ($(HOST_B),$(B))
$(HOST_B)/zc-policy: FORCE
	+@$(SUBMAKE) -s B=$(HOST_B) CC=$(HOST_CC) CFLAGS='$(CFLAGS)' $@
endif

$(COMPLETIONS): $(HOST_B)/zc-policy $(ZCLIB) $(wildcard policy/presets/*.conf)
	@mkdir -p $(@D)
	$(Q)ZC_BUILD='$(abspath $(HOST_B))' python3 -B scripts/zc --completion $(patsubst zc.%,%,$(notdir $(@D))) > $@.new
	@mv $@.new $@

install: all $(STAGE)/zc $(STAGE)/installed $(COMPLETIONS) $(if $(WITH_DEMO),$(DEMO))    ## install below $(DESTDIR)$(PREFIX)
	$(Q)$(foreach i,$(INSTALLED),install -D -m $(call field,2,$(i)) $(call field,3,$(i)) \
	    '$(DESTDIR)$(call field,1,$(i))/$(notdir $(call field,3,$(i)))' &&) true
	$(call say,INSTALL,$(DESTDIR)$(BINDIR)/zc)

# The package's folder may also hold what Python compiled.
uninstall:      ## remove what install put there
	$(Q)$(foreach i,$(INSTALLED),rm -f \
	    '$(DESTDIR)$(call field,1,$(i))/$(notdir $(call field,3,$(i)))' &&) true
	$(Q)rm -rf '$(DESTDIR)$(DATADIR)/zclib' '$(DESTDIR)$(DATADIR)/libzc'
	$(Q)rmdir '$(DESTDIR)$(LIBEXECDIR)/demo' '$(DESTDIR)$(DATADIR)/presets' '$(DESTDIR)$(DATADIR)' '$(DESTDIR)$(LIBEXECDIR)' \
	    2>/dev/null || true

# Installs into an empty folder and makes a package of it.  Two may be made at a time, so that what
# both install and is not in a folder of its own must have been made before.
# $(1) kind, $(2) folders of the installation
PACKAGE_OUT ?= $(B)
HOST_CC ?= gcc
# The compiler's own tools know its processor's files.
STRIP ?= $(if $(filter %-gcc,$(firstword $(CC))),$(patsubst %-gcc,%-strip,$(firstword $(CC))),strip)
define PACKAGE
	$(Q)rm -rf $(B)/package/$(1)
	+@$(MAKE) --no-print-directory -s install DESTDIR='$(abspath $(B))/package/$(1)' \
	    STAGE='$(B)/install-$(1)' WITH_DEMO=1 $(2)
	$(Q)STRIP='$(STRIP)' PROJECT_URL='$(PROJECT_URL)' PYTHONPATH=scripts python3 -B -m package.$(1) '$(B)/package/$(1)' $(VERSION) $(ARCH) '$(PACKAGE_OUT)'
endef

WHEEL_DATA = /libzc-$(VERSION).data/data/share
wheel: all $(COMPLETIONS) $(DEMO)   ## a package for pip, build/libzc-VERSION-py3-none-manylinux_*.whl
	$(call PACKAGE,wheel,DATADIR=/libzc BINDIR=/libzc LIBDIR=/libzc/lib LIBEXECDIR=/libzc/libexec INCLUDEDIR=/libzc/include \
	    MANDIR=$(WHEEL_DATA)/man BASHDIR=$(WHEEL_DATA)/bash-completion/completions \
	    ZSHDIR=$(WHEEL_DATA)/zsh/site-functions FISHDIR=$(WHEEL_DATA)/fish/vendor_completions.d)

deb: all $(COMPLETIONS) $(DEMO)     ## a package for Debian and its kin, build/libzc_VERSION-1_*.deb
	$(call PACKAGE,deb,PREFIX=/usr LIBDIR=/usr/lib/$(ARCH)-linux-gnu \
	    ZSHDIR=/usr/share/zsh/vendor-completions)

docs:           ## write the tables of keys in the pages, from policy/keys.def
	$(Q)scripts/keytables.py

# Archives the last commit, so that nothing of a working folder goes along.
DIST_OUT ?= $(B)
dist:           ## the source archive of this version, build/libzc-VERSION.tar.gz
	@mkdir -p $(DIST_OUT)
	$(Q)git archive --prefix=libzc-$(VERSION)/ HEAD | gzip -n > $(DIST_OUT)/libzc-$(VERSION).tar.gz
	$(call say,DIST,$(DIST_OUT)/libzc-$(VERSION).tar.gz)

# Of a commit, as its tag says.  The processor that is not this one's is crossed to.
RELEASE := $(B)/release
CROSS ?= $(if $(filter x86_64,$(ARCH)),aarch64,x86_64)-linux-gnu-
release:        ## what a tag has to offer, in build/release: packages for x86_64 and aarch64, recipes, sums, provenance
	@[ -z '$(TAG)' ] || [ '$(TAG)' = 'v$(VERSION)' ] || \
	    { echo "release: the tag is $(TAG), but the version in shim/base/version.h is $(VERSION)" >&2; exit 1; }
	@[ -n '$(PROJECT_URL)' ] || { echo 'release: say where the project lives by' \
	    'PROJECT_URL=https://HOST/OWNER/NAME: recipes download the source from its releases' >&2; exit 1; }
	@[ -z "$$(git status --porcelain --untracked-files=no)" ] || \
	    { echo 'release: commit what was changed: the source archive holds the last commit' >&2; exit 1; }
	@command -v $(CROSS)gcc >/dev/null || \
	    { echo 'release: no $(CROSS)gcc: install gcc-$(patsubst %-,%,$(CROSS)), or name another prefix by CROSS' >&2; exit 1; }
	$(Q)rm -rf $(RELEASE)
	+@$(SUBMAKE) wheel deb PACKAGE_OUT='$(abspath $(RELEASE))'
	+@$(SUBMAKE) wheel deb PACKAGE_OUT='$(abspath $(RELEASE))' B=build/cross CC=$(CROSS)gcc HOST_CC='$(CC)'
	+@$(SUBMAKE) dist DIST_OUT='$(abspath $(RELEASE))'
	$(Q)PROJECT_URL='$(PROJECT_URL)' PYTHONPATH=scripts python3 -B -m package.release '$(RELEASE)' $(VERSION) \
	    make release PROJECT_URL='$(PROJECT_URL)'

clean:          ## remove what was built; what `make deps` fetched stays
	$(Q)find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} + 2>/dev/null || true

help:           ## this list
	@sed -n '/^# Settings/,/^$$/s/^# //p' Makefile
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile tests/tests.mk \
	    kernels/kernels.mk | expand -t 24
