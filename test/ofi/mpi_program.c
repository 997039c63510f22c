/* SPDX-License-Identifier: MIT */

// An MPI program that checks everything it moves: point to point, collectives, one-sided.
//
//   mpi_program          run everything but probes, and print "ok" on rank 0
//   mpi_program probe    receive what MPI_Mprobe has found, and print "ok" on rank 0
//   mpi_program wait     print "ready" and the processes on rank 0, then go on until a signal comes

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 1 << 20, ROUNDS = 4, BURST = 200, CELLS = 64 };

static int rank, size;

static void require(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "rank %d: %s: wrong data\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_of(int from, int to, int length, int i) {
  return (unsigned char)(from * 31 + to * 17 + length + i * 7);
}

static void fill(unsigned char* bytes, int from, int to, int length) {
  for (int i = 0; i < length; i++) bytes[i] = byte_of(from, to, length, i);
}

static int is_filled(const unsigned char* bytes, int from, int to, int length) {
  for (int i = 0; i < length; i++)
    if (bytes[i] != byte_of(from, to, length, i)) return 0;
  return 1;
}

// Each rank exchanges messages of all sizes with the next one and the one before.
static void exchange_in_a_ring(void) {
  unsigned char* out = malloc(LARGEST);
  unsigned char* in = malloc(LARGEST);
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int length = 0; length <= LARGEST; length = length * 3 + 1) {
    for (int i = 0; i < ROUNDS; i++) {
      MPI_Status status;
      int received;
      fill(out, rank, next, length);
      MPI_Sendrecv(out, length, MPI_BYTE, next, i, in, LARGEST, MPI_BYTE, previous, i,
                   MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &received);
      require(received == length && is_filled(in, previous, rank, length), "ring");
    }
  }
  free(out);
  free(in);
}

// Messages that arrive before their receive, tagged, and taken in the opposite order.
static void receive_out_of_order(void) {
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int sent[BURST], got[BURST];
  MPI_Request requests[BURST];
  for (int i = 0; i < BURST; i++) {
    sent[i] = rank * 1000 + i;
    MPI_Isend(&sent[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = BURST - 1; i >= 0; i--)
    MPI_Recv(&got[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Waitall(BURST, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < BURST; i++) require(got[i] == previous * 1000 + i, "out of order");
}

// The next rank takes each message by the handle of a probe.
static void receive_what_was_probed(void) {
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  unsigned char* out = malloc(LARGEST);
  unsigned char* in = malloc(LARGEST);
  for (int length = 20000; length <= LARGEST; length *= 7) {
    for (int i = 0; i < ROUNDS; i++) {
      MPI_Request request;
      MPI_Message message;
      MPI_Status status;
      int received;
      fill(out, rank, next, length);
      MPI_Isend(out, length, MPI_BYTE, next, i, MPI_COMM_WORLD, &request);
      MPI_Mprobe(previous, i, MPI_COMM_WORLD, &message, &status);
      MPI_Get_count(&status, MPI_BYTE, &received);
      MPI_Mrecv(in, received, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      require(received == length && is_filled(in, previous, rank, length), "probe");
    }
  }
  free(out);
  free(in);
}

static void reduce(int count) {
  int64_t* mine = calloc((size_t)count, sizeof(int64_t));
  int64_t* sum = malloc((size_t)count * sizeof(int64_t));
  for (int i = 0; i < count; i++) mine[i] = (int64_t)i * (rank + 1);
  MPI_Allreduce(mine, sum, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++)
    require(sum[i] == (int64_t)i * size * (size + 1) / 2, "allreduce");
  if (rank == 0) memcpy(mine, sum, (size_t)count * sizeof(int64_t));
  MPI_Bcast(mine, count, MPI_INT64_T, 0, MPI_COMM_WORLD);
  require(memcmp(mine, sum, (size_t)count * sizeof(int64_t)) == 0, "bcast");
  free(mine);
  free(sum);
}

static void exchange_among_all(int length) {
  unsigned char* out = malloc((size_t)length * (size_t)size);
  unsigned char* in = malloc((size_t)length * (size_t)size);
  for (int i = 0; i < size; i++) fill(out + (size_t)i * (size_t)length, rank, i, length);
  MPI_Alltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++)
    require(is_filled(in + (size_t)i * (size_t)length, i, rank, length), "alltoall");
  MPI_Allgather(out, length, MPI_BYTE, in, length, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++)
    require(is_filled(in + (size_t)i * (size_t)length, i, 0, length), "allgather");
  free(out);
  free(in);
}

// Each rank writes into the window of the next, reads it back, and all count in that of rank 0.
static void access_windows(void) {
  int64_t* cells;
  MPI_Win window;
  MPI_Win_allocate(CELLS * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &cells,
                   &window);
  memset(cells, 0, CELLS * sizeof(int64_t));
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int64_t out[CELLS], in[CELLS] = {0}, one = 1, old = -1;
  for (int i = 0; i < CELLS; i++) out[i] = rank * 100 + i;
  MPI_Win_fence(0, window);
  MPI_Put(out, CELLS, MPI_INT64_T, next, 0, CELLS, MPI_INT64_T, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < CELLS; i++) require(cells[i] == previous * 100 + i, "put");
  MPI_Get(in, CELLS, MPI_INT64_T, next, 0, CELLS, MPI_INT64_T, window);
  MPI_Win_fence(0, window);
  require(memcmp(in, out, sizeof(in)) == 0, "get");
  memset(cells, 0, CELLS * sizeof(int64_t));
  MPI_Win_fence(0, window);
  MPI_Accumulate(out, CELLS, MPI_INT64_T, 0, 0, CELLS, MPI_INT64_T, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < CELLS && rank == 0; i++)
    require(cells[i] == (int64_t)size * (size - 1) / 2 * 100 + (int64_t)size * i, "accumulate");
  memset(cells, 0, CELLS * sizeof(int64_t));
  MPI_Win_fence(0, window);
  for (int i = 0; i < BURST; i++) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    require(old >= i && old < (int64_t)size * BURST, "fetch_and_op");
  }
  MPI_Win_fence(0, window);
  require(rank != 0 || cells[0] == (int64_t)size * BURST, "fetch_and_op in all");
  MPI_Win_free(&window);
}

static void wait_for_the_end(void) {
  int pid = (int)getpid();
  int* pids = calloc((size_t)size, sizeof(int));
  MPI_Gather(&pid, 1, MPI_INT, pids, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("ready");
    for (int i = 0; i < size; i++) printf(" %d", pids[i]);
    printf("\n");
    fflush(stdout);
  }
  for (;;) reduce(16);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "wait") == 0) wait_for_the_end();
  if (argc > 1 && strcmp(argv[1], "probe") == 0) {
    receive_what_was_probed();
  } else {
    exchange_in_a_ring();
    receive_out_of_order();
    reduce(1);
    reduce(100000);
    exchange_among_all(16);
    exchange_among_all(50000);
    access_windows();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
