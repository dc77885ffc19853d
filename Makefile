# Everything that a person does with this tree. `make help` lists it.
# On Debian 12 each command first installs what it needs and does not find.

DEMO_MACHINE ?= a100-40gb
DEMO_CAPACITY ?= 16GiB

.DEFAULT_GOAL := build
.PHONY: build demo test check format lint bench clean help

build: ## Build the program, build/spillway
	@tools/install-deps.sh build
	@cmake --preset release $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) \
	  --log-level=WARNING
	@cmake --build --preset release --target spillway

demo: build ## Generate a training step that does not fit, and simulate it under every policy
	@build/spillway trace generate transformer -o build/demo.swt
	@build/spillway simulate --machine $(DEMO_MACHINE) --set device.capacity=$(DEMO_CAPACITY) \
	  --policy all build/demo.swt

test: ## What CI checks: every stage; STAGES="release lint" for some of them
	@tools/install-deps.sh test
	@tools/test.sh $(STAGES)

check: ## Only the release build's tests: what to run while working
	@tools/install-deps.sh test
	@tools/test.sh release

format: ## Format all sources in place
	@tools/install-deps.sh test
	@find src tests bench fuzz -name '*.h' -o -name '*.cc' | xargs clang-format-16 -i

lint: ## clang-format and clang-tidy, without changing anything
	@tools/install-deps.sh test
	@tools/test.sh format lint

bench: build ## Build and run the benchmarks
	@cmake --build --preset release
	@for bench in build/*_bench; do echo "== $$bench"; $$bench || exit 1; done

clean: ## Remove the build folders
	@rm -rf build build-debug build-asan build-tsan build-fuzz

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10
