/* A program that knows nothing of Spillway, for `spillway run`: writes and sums 48 MiB. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const size_t count = (size_t)12 << 20;
  int* const numbers = malloc(count * sizeof(int));
  long long sum = 0;
  size_t at;
  if (numbers == NULL) return 1;
  for (at = 0; at < count; ++at) numbers[at] = (int)(at % 10);
  for (at = 0; at < count; ++at) sum += numbers[at];
  printf("%lld\n", sum);
  free(numbers);
  return 0;
}
