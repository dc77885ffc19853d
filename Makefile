# Everything that a person does with this tree. `make help` lists it.
# On Debian 12 each command first installs what it needs and does not find.

.DEFAULT_GOAL := build
.PHONY: build demo wheel soak test test-gpu check format lint bench clean help

build: ## Build the program, build/spillway
	@tools/install-deps.sh build
	@cmake --preset release $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) \
	  --log-level=WARNING
	@cmake --build --preset release --target spillway spillway_preload spillway_cuda spillway_near

soak: ## Ten million events of random programs under every policy (about 5 minutes)
	@tools/install-deps.sh test
	@cmake --preset release $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) \
	  --log-level=WARNING
	@cmake --build --preset release --target platform_test
	@SPILLWAY_EVENTS=$${SPILLWAY_EVENTS:-10000000} build/platform_test \
	  --gtest_filter='*RandomPrograms.Keep*'

demo: ## Train a GPT-2 that does not fit, under every policy that runs here (under 3 minutes)
	@tools/install-deps.sh demo
	@cmake --preset demo $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) \
	  --log-level=WARNING
	@cmake --build --preset demo --target spillway spillway_preload spillway_cuda spillway_near
	@"$$(tools/python-env.sh)" examples/demo.py

wheel: ## Build the wheel, dist/spillway_gpu-*.whl, for any Linux of x86-64 with glibc 2.28 or newer
	@tools/install-deps.sh demo
	@tools/wheel.sh

test: ## What CI checks: every stage; STAGES="release lint" for some of them
	@tools/install-deps.sh test
	@tools/test.sh $(STAGES)

check: ## Only the release build's tests: what to run while working
	@tools/install-deps.sh test
	@tools/test.sh release

test-gpu: ## Programs on this machine's GPUs, with the python3 that has PyTorch; PYTEST="-n 4 -k nccl"
	@! python3 tools/program.py --to-build || $(MAKE) --no-print-directory build
	@python3 -m pytest -rsP tests/gpu $(PYTEST)

format: ## Format all sources in place
	@tools/install-deps.sh test
	@find src tests bench fuzz include examples -name '*.h' -o -name '*.hpp' -o -name '*.cc' | xargs clang-format-16 -i

lint: ## clang-format and clang-tidy over everything, without changing anything; once a week
	@tools/install-deps.sh test
	@tools/test.sh format lint-all

bench: build ## Build and run the benchmarks
	@cmake --build --preset release
	@for bench in build/*_bench; do echo "== $$bench"; $$bench || exit 1; done

clean: ## Remove the build folders
	@rm -rf dist build-wheel build build-debug build-asan build-tsan build-fuzz build-lint

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10
