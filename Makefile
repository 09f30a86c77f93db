# Every target sets up what it needs: a virtual environment in .venv with the package and the extras in use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COUNT ?= 200
SEED ?= 0

.PHONY: help demo test test-c test-cuda-source test-cuda-models test-gpu test-torch test-torchao test-farm test-arm test-boards test-micro test-wasm test-machines test-sanitizers test-opencl test-vta test-vta-networks test-rtl test-hosts test-tensorflow test-tflite test-rpc soak-rpc test-browser test-slow choose-slow test-vecmath test-roundtrip conformance conformance-torch bench bench-gpu fuzz lint format wheel clean
.DELETE_ON_ERROR:

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

NATIVE := CMakeLists.txt $(shell find native build_backend -type f) $(wildcard src/tilewright/runtime/*.p[xy][xd])

$(VENV)/.base: pyproject.toml $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# One stamp an extra, so that a target installs only what it uses; the package itself is built once.
$(VENV)/.extra-%: $(VENV)/.base
	@$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$*'], sep='\n')" > $@.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $@.txt
	@mv $@.txt $@

demo: $(VENV)/.extra-demo  ## read a printed page with compiled text detection and recognition
	$(BIN)/python examples/read_page.py

test: $(VENV)/.extra-test  ## the test suite (minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

test-slow: $(VENV)/.extra-test  ## what `make test` leaves out: whole models beside their reference, further cases of large families, the compiler-less build (tens of minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m slow

choose-slow: $(VENV)/.extra-test  ## choose anew which cases of families of tests wait for test-slow, by their time (tens of minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --choose-slow

ZIG_CC = CC="$(CURDIR)/$(BIN)/python -m ziglang cc"
test-c: $(VENV)/.extra-test  ## LLVM's tests through the target c, by the machine's C compiler and by zig; whole models beside LLVM (tens of minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --through-c -m "slow or not slow" tests/codegen
	$(ZIG_CC) $(BIN)/python -m pytest -q -n 2 --dist worksteal --through-c tests/codegen
	$(BIN)/python -m benchmarks c_source

test-cuda-source: $(VENV)/.extra-test $(VENV)/.extra-cuda  ## CUDA C of kernels, models and random programs, compiled by NVRTC; registers and shared memory within limits (minutes)
	$(BIN)/python -m pytest -q tests/codegen/device/on_nvrtc.py tests/codegen/performance/on_nvrtc.py tests/scheduling/gpu/on_nvrtc.py
	$(BIN)/python -m pytest -q -m slow tests/cuda

test-cuda-models: $(VENV)/.extra-test $(VENV)/.extra-cuda  ## models in their full size for sm_80 and sm_90a in float32 and float16, compiled by NVRTC (tens of minutes)
	$(BIN)/python -m pytest -q tests/scheduling/gpu/full_models_on_nvrtc.py

test-gpu: $(VENV)/.extra-test $(VENV)/.extra-cuda  ## compiled programs and models on a GPU of NVIDIA, beside the interpreter, in 8 minutes
	$(BIN)/python -m tests.on_gpu --json build/test_gpu.json

test-vta: $(VENV)/.extra-test  ## random programs and layers for the accelerator: COUNT of each, from SEED on (minutes)
	$(BIN)/python -m pytest -q tests/vta
	$(BIN)/python -m tests.vta.fuzz --count $(COUNT) --seed $(SEED)
	$(BIN)/python -m tests.vta.streams --count $$(( $(COUNT) * 500 ))
	$(BIN)/python -m tests.vta.layers --count $(COUNT) --seed $(SEED)
	$(BIN)/python -m tests.vta.on_networks --seed $(SEED)

# A case is a network from one source on one accelerator. What is equal is kept in the log, so an interrupted run of the same code goes on where it was.
test-vta-networks: $(VENV)/.extra-test  ## networks on accelerators, equal to the bit to the CPU: small ones on 20 configurations, then in full size (hours)
	@mkdir -p build
	$(BIN)/python -m tests.vta.on_networks --forms relay onnx tflite --configurations 20 --seed $(SEED) --log build/vta_networks.jsonl
	$(BIN)/python -m tests.vta.on_networks --forms relay onnx tflite --full --seed $(SEED) --log build/vta_networks.jsonl

# Verilator, unpacked from its package of Debian. It compiles with the C++ compiler of the machine.
build/verilator/.done:
	@command -v apt-get dpkg-deb c++ > /dev/null || { echo "Verilator is unpacked from Debian's package, and compiles with c++: apt-get, dpkg-deb and c++ are needed" >&2; exit 1; }
	@mkdir -p build/verilator/packages
	cd build/verilator/packages && apt-get download verilator
	for package in build/verilator/packages/*.deb; do dpkg-deb -x $$package build/verilator; done
	@rm -rf build/verilator/packages
	@VERILATOR_ROOT=build/verilator/usr/share/verilator build/verilator/usr/bin/verilator_bin --version > /dev/null
	@touch $@

test-rtl: build/verilator/.done $(VENV)/.extra-test $(VENV)/.extra-rtl  ## the accelerator's hardware: Amaranth's simulator, Verilator and Yosys beside the simulators (ten minutes)
	$(BIN)/python -m pytest -q $(addprefix tests/vta/rtl/,on_amaranth.py on_verilator.py on_yosys.py)
	$(BIN)/python -m tests.vta.rtl.programs --count $$(( ($(COUNT) + 9) / 10 )) --seed $(SEED)

test-vecmath: $(VENV)/.extra-test  ## vector math over all 2^32 float32 arguments of each function (an hour on two cores)
	$(BIN)/python -m tests.codegen.llvm.every_float

test-roundtrip: $(VENV)/.extra-test  ## the test suite, in which every program it makes, of tensors or relay, must come back from its text
	$(BIN)/python -m pytest -q --roundtrip --ignore=tests/node

conformance: $(VENV)/.extra-test  ## ONNX's own backend tests: the score of each group, each failure with its reason (minutes)
	TVM_NUM_THREADS=1 $(BIN)/python -m tests.frontend.onnx.conformance

conformance-torch: $(VENV)/.extra-test  ## PyTorch's database of operators through the importer: the score of each group, each failure with its reason (tens of minutes)
	TVM_NUM_THREADS=1 $(BIN)/python -m tests.frontend.torch.database

test-torch: $(VENV)/.extra-test  ## every operator and architecture of the PyTorch importer beside PyTorch, dynamic dimensions too (tens of minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "slow or not slow" tests/frontend/torch

# transformers imports torchao where it finds it, so it lies in a folder of its own; it needs the PyTorch that is there.
build/torchao/.done: pyproject.toml $(VENV)/.base
	@mkdir -p build/torchao
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['torchao'], sep='\n')" > build/torchao/needs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/torchao --requirement build/torchao/needs.txt
	@touch $@

test-torchao: $(VENV)/.extra-test build/torchao/.done  ## models that torchao quantised (PT2E and quantize_), beside PyTorch (minutes)
	PYTHONPATH=build/torchao $(BIN)/python -m pytest -q tests/frontend/torch/torchao_peers.py

# Ray takes 250 MB, and brings versions of what others use.
build/farm/.done: pyproject.toml $(VENV)/.base
	@mkdir -p build/farm
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['farm'], sep='\n')" > build/farm/needs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --target build/farm --requirement build/farm/needs.txt
	@touch $@

test-farm: $(VENV)/.extra-test build/farm/.done  ## measurements of tuning in a Ray cluster of this machine (a minute)
	PYTHONPATH=build/farm $(BIN)/python -m pytest -q tests/tuning/on_ray.py

# Apache TVM's package, whose messages of remote calls ours are, in an environment of its own. It writes no module as JSON with a later apache-tvm-ffi.
build/apache-tvm/.done: pyproject.toml
	test -x build/apache-tvm/bin/python || $(PYTHON) -m venv build/apache-tvm
	build/apache-tvm/bin/python -m pip install --quiet --disable-pip-version-check apache-tvm 'apache-tvm-ffi<0.1.15' numpy cloudpickle psutil tornado xgboost-cpu scipy
	@touch $@

test-rpc: $(VENV)/.extra-test build/apache-tvm/.done  ## sessions with apache-tvm's client, server, tracker and proxy, in both directions (a minute)
	APACHE_TVM=build/apache-tvm/bin/python $(BIN)/python -m pytest -q tests/rpc/apache_tvm.py

soak-rpc: $(VENV)/.extra-test  ## 200 clients at one tracker with 20 servers: waits, and what is left (ten minutes)
	$(BIN)/python -m tests.rpc.soak

# TensorFlow brings its own versions of what others use, so it lives in an environment of its own, with the package.
build/tensorflow/.done: pyproject.toml $(NATIVE)
	test -x build/tensorflow/bin/python || $(PYTHON) -m venv build/tensorflow
	build/tensorflow/bin/python -c "import tomllib; e = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; print(*e['tensorflow'], *e['tflite'], *e['images'], 'pytest', sep='\n')" > build/tensorflow/needs.txt
	build/tensorflow/bin/python -m pip install --quiet --disable-pip-version-check --editable . --requirement build/tensorflow/needs.txt
	@touch $@

# QEMU for programs of other processors, and their C libraries, unpacked from packages of Debian.
QEMU_PACKAGES := qemu-user-static $(foreach arch,arm64 armhf riscv64 i386,libc6-$(arch)-cross libgcc-s1-$(arch)-cross)
build/qemu/.done:
	@command -v apt-get dpkg-deb > /dev/null || { echo "QEMU is unpacked from Debian's packages: apt-get and dpkg-deb are needed" >&2; exit 1; }
	@mkdir -p build/qemu/packages
	cd build/qemu/packages && apt-get download $(QEMU_PACKAGES)
	for package in build/qemu/packages/*.deb; do dpkg-deb --fsys-tarfile $$package | tar -x -C build/qemu --wildcards \
	  './usr/bin/qemu-aarch64-*' './usr/bin/qemu-arm-*' './usr/bin/qemu-riscv64-*' './usr/bin/qemu-i386-*' './usr/*-linux-gnu*' 2> /dev/null || true; done
	@test -x build/qemu/usr/bin/qemu-aarch64-static -a -d build/qemu/usr/i686-linux-gnu
	@rm -rf build/qemu/packages
	@touch $@

# QEMU for boards with microcontrollers, and the libraries that it needs, unpacked from packages of Debian.
MICRO_PACKAGES := qemu-system-arm qemu-system-misc libaio1 libcapstone4 libdaxctl1 libfdt1 libfuse3-3 libibverbs1 libndctl6 libnl-3-200 \
  libnl-route-3-200 libpmem1 libpixman-1-0 libpng16-16 libjpeg62-turbo librdmacm1 libslirp0 liburing2 libvdeplug2
build/qemu-system/.done:
	@command -v apt-get dpkg-deb > /dev/null || { echo "QEMU is unpacked from Debian's packages: apt-get and dpkg-deb are needed" >&2; exit 1; }
	@mkdir -p build/qemu-system/packages
	cd build/qemu-system/packages && apt-get download $(MICRO_PACKAGES)
	for package in build/qemu-system/packages/*.deb; do dpkg-deb --fsys-tarfile $$package | tar -x -C build/qemu-system --wildcards \
	  './usr/bin/qemu-system-arm' './usr/bin/qemu-system-riscv32' './usr/lib/*.so*' './lib/*.so*' 2> /dev/null || true; done
	@rm -rf build/qemu-system/packages
	@LD_LIBRARY_PATH="$$(printf '%s:' build/qemu-system/usr/lib/*-linux-gnu build/qemu-system/lib/*-linux-gnu)" \
	  build/qemu-system/usr/bin/qemu-system-arm --version > /dev/null || { echo "QEMU does not run: a library is missing (apt-get install qemu-system-arm)" >&2; exit 1; }
	@touch $@

# arm-none-eabi-gcc with newlib, unpacked from packages of Debian: firmware is compiled by it as well as by zig. Its libraries are told apart
# by options of the machine, below the folder that -B names.
GCC_PACKAGES := gcc-arm-none-eabi binutils-arm-none-eabi libnewlib-arm-none-eabi libnewlib-dev
build/arm-gcc/.done:
	@command -v apt-get dpkg-deb > /dev/null || { echo "gcc for Arm is unpacked from Debian's packages: apt-get and dpkg-deb are needed" >&2; exit 1; }
	@mkdir -p build/arm-gcc/packages build/arm-gcc/bin
	cd build/arm-gcc/packages && apt-get download $(GCC_PACKAGES)
	for package in build/arm-gcc/packages/*.deb; do dpkg-deb --fsys-tarfile $$package | tar -x -C build/arm-gcc --wildcards \
	  './usr/bin/*' './usr/lib/*' './usr/include/*' 2> /dev/null || true; done
	@rm -rf build/arm-gcc/packages
	@printf '#!/bin/sh\nexec "%s" -B"%s" -isystem "%s" "$$@"\n' $(CURDIR)/build/arm-gcc/usr/bin/arm-none-eabi-gcc \
	  $(CURDIR)/build/arm-gcc/usr/lib/arm-none-eabi/newlib/ $(CURDIR)/build/arm-gcc/usr/include/newlib > build/arm-gcc/bin/arm-none-eabi-gcc
	@chmod +x build/arm-gcc/bin/arm-none-eabi-gcc && ln -sf ../usr/bin/arm-none-eabi-objcopy build/arm-gcc/bin/
	@build/arm-gcc/bin/arm-none-eabi-gcc --version > /dev/null || { echo "gcc for Arm does not run: a library is missing (apt-get install gcc-arm-none-eabi)" >&2; exit 1; }
	@touch $@

test-micro: build/qemu-system/.done build/arm-gcc/.done $(VENV)/.extra-test  ## sessions with microcontrollers and firmware on boards of QEMU: Cortex-M0, M3, M4, M7, M33, M55, RISC-V (minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal $(addprefix tests/micro/,on_boards.py firmware_on_boards.py tuned_on_boards.py projects_on_boards.py kernels_in_unicorn.py kernels_on_processors.py)

# A program that runs models in the runtime, for other processors.
build/emulated/runner-%: tests/emulated/runner.cc $(VENV)/.extra-test build/qemu/.done
	@mkdir -p build/emulated
	$(BIN)/python -c "from pathlib import Path; from tilewright.deploy import machines, native_build as build; \
	  build.build_program(machines.machine_of('$*'), [Path('$<')], Path('$@'))"

# Rebuilt each time: the builder knows what it has.
BOARDS := x86_64-linux-gnu aarch64-linux-gnu armv7-linux-gnueabihf riscv64-linux-gnu i686-linux-gnu
.PHONY: $(BOARDS:%=build/boards/%)
$(BOARDS:%=build/boards/%): build/boards/%: $(VENV)/.extra-test
	$(BIN)/tilewright runtime build --target $* --rpc -o $@

test-boards: $(BOARDS:%=build/boards/%) build/qemu/.done  ## the server without Python for five processors under QEMU: models uploaded, run, timed and tuned; boards that die; its protocol; Windows under Wine (tens of minutes)
	@for p in wine64 wine /usr/lib/wine/wine64; do command -v $$p > /dev/null && exit 0; done; echo "test-boards needs Wine: apt-get install wine64"; exit 1
	$(BIN)/python -m pytest -q $(addprefix tests/boards/,on_boards.py static_programs.py native_server.py other_systems.py tuned_on_boards.py lost_boards.py)

test-machines: build/emulated/runner-riscv64 build/emulated/runner-arm  ## what is compiled for RISC-V and 32-bit ARM under QEMU: operators, vector math, whole models (minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/emulated/on_riscv_and_arm32.py

test-arm: build/emulated/runner-aarch64  ## what is compiled for ARM (NEON, SVE of several widths) under QEMU: operators, vector math, whole models (minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/emulated/on_arm.py

build/emulated/wasm32/index.js: $(VENV)/.extra-test $(NATIVE) $(wildcard native/javascript/*)
	$(BIN)/tilewright runtime build --target wasm32 -o build/emulated/wasm32

test-wasm: build/emulated/wasm32/index.js  ## what is compiled for WebAssembly in node: operators, vector math, whole models, threads (minutes)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/emulated/on_wasm.py

# The system's loader takes the library of LD_LIBRARY_PATH before the one that lies beside the module. Its size is not the wheel's.
# The sanitizer looks for the functions that throw when a process begins, in which Python has not loaded the C++ library yet.
SANITIZED := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1 -g
build/sanitizers/libtilewright_runtime.so: $(NATIVE)
	cmake -S native -B build/sanitizers -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="$(SANITIZED)" -DCMAKE_C_FLAGS="$(SANITIZED)"
	cmake --build build/sanitizers --parallel 2
	@touch $@

test-sanitizers: build/sanitizers/libtilewright_runtime.so $(VENV)/.extra-test  ## the runtime under gcc's address and undefined behaviour sanitizers: tests of the runtime, of executors and of devices (minutes)
	LD_LIBRARY_PATH=$(CURDIR)/build/sanitizers LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 $(BIN)/python -m pytest -q -p no:cacheprovider \
	  --deselect tests/runtime/test_modules.py::test_library_is_small --ignore tests/runtime/test_other_machines.py tests/runtime tests/executors tests/cuda

# OpenCL devices that are the CPU (pocl), and the loader of pyopencl. pocl links kernels by the program ld; zig's stands in where there is none.
# A second loader, built here, says that the devices share no memory with the host; schedules do not depend on that. A library before all others
# names processors that pocl does not know.
OPENCL := $(CURDIR)/build/opencl
build/opencl/.done: tests/opencl/without_shared_memory.c tests/opencl/known_cpu.c $(VENV)/.extra-test
	@mkdir -p $(OPENCL)/lib $(OPENCL)/plain $(OPENCL)/vendors $(OPENCL)/bin
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(OPENCL)/packages pocl-binary-distribution
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(OPENCL)/loader pyopencl
	ls $(OPENCL)/packages/pyopencl/.libs/libpocl-*.so > $(OPENCL)/vendors/pocl.icd || { echo "test-opencl: pocl-binary-distribution has no libpocl for this system"; exit 1; }
	ln -sf $(OPENCL)/loader/pyopencl/.libs/libOpenCL-*.so.* $(OPENCL)/lib/libOpenCL.so.1
	@test -e $(OPENCL)/lib/libOpenCL.so.1 || { echo "test-opencl: pyopencl has no libOpenCL for this system"; exit 1; }
	$(BIN)/python -m ziglang cc -shared -fPIC -fvisibility=hidden -DLOADER='"$(OPENCL)/lib/libOpenCL.so.1"' $< -Wl,-soname,libOpenCL.so.1 -Wl,--no-as-needed \
	  $$(ls $(OPENCL)/loader/pyopencl/.libs/libOpenCL-*.so.*) -Wl,-rpath,$(OPENCL)/loader/pyopencl/.libs -ldl -o $(OPENCL)/plain/libOpenCL.so.1
	$(BIN)/python -m ziglang cc -shared -fPIC -O1 -fno-builtin -fvisibility=hidden tests/opencl/known_cpu.c -ldl -o $(OPENCL)/lib/known_cpu.so
	printf '#!/bin/sh\nexec "%s" -m ziglang ld.lld "$$@"\n' "$(CURDIR)/$(BIN)/python" > $(OPENCL)/bin/ld
	@chmod +x $(OPENCL)/bin/ld
	@touch $@

# pyopencl's loader reads the folder PYOPENCL_HOME first.
ON_POCL = DEVICE_TARGET="opencl -supports_float16=0" PYOPENCL_HOME=$(OPENCL)/loader/pyopencl OCL_ICD_VENDORS=$(OPENCL)/vendors POCL_CACHE_DIR=$(OPENCL)/cache POCL_DEVICES="pthread pthread" \
  LD_PRELOAD=$(OPENCL)/lib/known_cpu.so PATH="$$PATH:$(OPENCL)/bin" $(BIN)/python -m pytest -q -p no:cacheprovider tests/opencl/on_pocl.py tests/codegen/device/on_devices.py
test-opencl: build/opencl/.done  ## OpenCL devices by pocl, whose devices are the CPU: arrays, streams, kernels, errors, sessions, compiled programs, all operators and models (tens of minutes)
	SHARED=1 LD_LIBRARY_PATH=$(OPENCL)/lib $(ON_POCL) tests/scheduling/gpu/on_devices.py tests/scheduling/gpu/operators_on_devices.py
	SHARED=0 LD_LIBRARY_PATH=$(OPENCL)/plain $(ON_POCL)

# The JavaScript package, its tests and models. node, npm and Chromium are the system's; npm brings the rest.
BROWSER := build/browser
$(BROWSER)/node_modules/.done: $(VENV)/.extra-test Makefile
	@for p in node npm; do command -v $$p > /dev/null || { echo "$$p is not installed: apt-get install nodejs npm (20 or newer)"; exit 1; }; done
	@mkdir -p $(BROWSER)
	cd $(BROWSER) && npm install --no-save --no-audit --no-fund --loglevel=error playwright-core typescript @types/node esbuild vite
	@touch $@

test-browser: $(BROWSER)/node_modules/.done  ## the JavaScript package in node and in headless Chromium, its types and bundles, its RPC servers, the page of examples/browser (minutes)
	@test -x "$${CHROMIUM:-/usr/bin/chromium}" || { echo "Chromium is not installed: apt-get install chromium (or set CHROMIUM)"; exit 1; }
	$(BIN)/python -m tests.deploy.javascript.models $(BROWSER)
	$(BROWSER)/node_modules/.bin/tsc --noEmit --strict --target es2022 --module nodenext --moduleResolution nodenext --lib es2023,dom --skipLibCheck false $(BROWSER)/tests/types.mts
	PYTHON="$(CURDIR)/$(BIN)/python" EXAMPLE="$(CURDIR)/examples/browser" PAGE="$(CURDIR)/docs/browser.md" node --test $(BROWSER)/tests/

test-hosts: $(VENV)/.extra-test  ## C++, C and Java programs: compilers, standards, sanitizers, valgrind, the all-in-one build; needs cmake, pkg-config, valgrind, JDK 22 (minutes)
	@for p in make cmake pkg-config valgrind; do command -v $$p > /dev/null || { echo "test-hosts needs $$p: apt-get install $$p"; exit 1; }; done
	$(BIN)/python -m pytest -q tests/hosts/test_hosts.py tests/hosts/full.py

test-tflite: $(VENV)/.extra-test build/tensorflow/.done  ## Keras architectures as TFLite files of every precision, compiled, against LiteRT (tens of minutes)
	build/tensorflow/bin/python tests/frontend/tflite/convert.py build/tflite
	$(BIN)/python -m tests.frontend.tflite.whole build/tflite

test-tensorflow: build/tensorflow/.done  ## the TensorFlow importer beside TensorFlow, and one model in several formats (tens of minutes)
	build/tensorflow/bin/python -m pytest -q tests/frontend/tensorflow/peers*.py

bench: $(VENV)/.extra-bench  ## latency beside the peers, interleaved in one run
	$(BIN)/python -m benchmarks

bench-gpu: $(VENV)/.extra-bench $(VENV)/.extra-cuda  ## products, convolutions, attention, models on a GPU of NVIDIA beside PyTorch's libraries, in 8 minutes
	$(BIN)/python -m benchmarks gpu --json build/gpu.json

fuzz: $(VENV)/.extra-test  ## random programs and models of all families against their references (COUNT=1000 SEED=7)
	$(BIN)/python -m tests.fuzz.families --count $(COUNT) --seed $(SEED)

lint: $(VENV)/.extra-lint  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.extra-lint  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(VENV)/.base  ## build a wheel into dist/
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist .

clean:  ## remove what was built, the virtual environment included
	rm -rf $(VENV) build dist
