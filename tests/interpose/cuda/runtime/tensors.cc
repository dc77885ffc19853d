// Who allocates through the runtime that it is linked against, as PyTorch does. Test library.
#include <cstddef>

extern "C" {

int cudaMallocAsync(void** address, std::size_t bytes, void* stream);
int cudaFreeAsync(void* address, void* stream);
int cudaGetLastError();
int cudart_calls();
int cudart_versions_asked();

int tensors_allocate(void** address, std::size_t bytes, void* stream) {
  return cudaMallocAsync(address, bytes, stream);
}
int tensors_free(void* address, void* stream) { return cudaFreeAsync(address, stream); }
int tensors_last_error() { return cudaGetLastError(); }
int tensors_runtime_calls() { return cudart_calls(); }
int tensors_versions_asked() { return cudart_versions_asked(); }

}  // extern "C"
