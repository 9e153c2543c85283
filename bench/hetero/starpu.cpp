// SPDX-License-Identifier: Apache-2.0
/// \file
/// All tasks with StarPU; the environment's STARPU_SCHED says by which scheduler. The main thread
/// submits, beside the workers. Data is registered before the clock starts.

#include "bench/hetero/contestant.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

extern "C" { // which it does not say itself
#include <starpu_disk.h>
}
#include <starpu.h>
#include <starpu_opencl.h>
#ifdef BENCH_HETERO_BLAS
#include "bench/hetero/opencl_tiles.hpp"
#include "bench/hetero/tiles.hpp"

#include <cblas.h>
#endif

namespace {

using namespace tern::bench::hetero;

void must(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": error " + std::to_string(code) + " of StarPU");
}

void start(int cpus, int opencl) {
  // What it measures of buses is of no use to these schedulers; it is measured once, and not left
  // in the home folder.
  setenv("STARPU_HOME", BENCH_HETERO_STARPU_HOME, 0);
  setenv("STARPU_SILENT", "1", 0);
  if (opencl) setenv("STARPU_OPENCL_ON_CPUS", "1", 0); // as PoCL's devices are
  starpu_conf conf;
  must(starpu_conf_init(&conf), "starpu_conf_init");
  conf.ncpus = cpus;
  conf.ncuda = 0;
  conf.nopencl = opencl;
  must(starpu_init(&conf), "starpu_init");
}

/// A codelet with these modes for its buffers.
starpu_codelet codelet(starpu_cpu_func_t run, std::initializer_list<starpu_data_access_mode> modes) {
  starpu_codelet c;
  starpu_codelet_init(&c);
  c.cpu_funcs[0] = run;
  c.nbuffers = static_cast<int>(modes.size());
  int i = 0;
  for (const starpu_data_access_mode m : modes) c.modes[i++] = m;
  return c;
}

void submit(starpu_codelet& c, std::initializer_list<starpu_data_handle_t> data) {
  starpu_task* const t = starpu_task_create();
  t->cl = &c;
  int i = 0;
  for (starpu_data_handle_t d : data) t->handles[i++] = d;
  must(starpu_task_submit(t), "starpu_task_submit");
}

void wait() { must(starpu_task_wait_for_all(), "starpu_task_wait_for_all"); }

/// What is in `handle`, in main memory from now on.
void fetch(starpu_data_handle_t handle) {
  must(starpu_data_acquire(handle, STARPU_R), "starpu_data_acquire");
  starpu_data_release(handle);
}

measurement count(const job& j) {
  start(j.workers, 0);
  auto all = std::make_shared<counting>(j);
  auto handles = std::make_shared<std::vector<starpu_data_handle_t>>(all->objects.size());
  for (std::size_t i = 0; i < handles->size(); ++i)
    starpu_variable_data_register(&(*handles)[i], STARPU_MAIN_RAM,
                                  reinterpret_cast<std::uintptr_t>(&all->objects[i].value), sizeof(long));
  static starpu_codelet nothing = codelet([](void**, void*) {}, {});
  static starpu_codelet one_more = codelet(
      [](void** buffers, void*) { ++*reinterpret_cast<long*>(STARPU_VARIABLE_GET_PTR(buffers[0])); }, {STARPU_RW});
  return [all, handles] {
    all->prepare();
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < all->tasks; ++i) {
        if (handles->empty())
          submit(nothing, {});
        else
          submit(one_more, {(*handles)[all->object_of(i)]});
      }
      wait();
    });
    for (starpu_data_handle_t h : *handles) fetch(h);
    all->check();
    return taken;
  };
}

#ifdef BENCH_HETERO_BLAS

class handles {
public:
  explicit handles(const tiles& m) : base_(m.at(0, 0)), each_(m.tile * m.tile), all_(m.count * m.count) {
    const auto n = static_cast<std::uint32_t>(m.tile);
    for (std::size_t i = 0; i < all_.size(); ++i)
      starpu_matrix_data_register(&all_[i], STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(base_ + i * each_), n, n,
                                  n, sizeof(double));
  }
  /// Of data that StarPU has its own memory for, and so may put on disk.
  struct own {};
  handles(const tiles& m, own) : base_(m.at(0, 0)), each_(m.tile * m.tile), all_(m.count * m.count) {
    const auto n = static_cast<std::uint32_t>(m.tile);
    for (starpu_data_handle_t& h : all_) starpu_matrix_data_register(&h, -1, 0, n, n, n, sizeof(double));
  }
  void load(const double* tile) const {
    must(starpu_data_acquire(of(tile), STARPU_W), "starpu_data_acquire");
    std::copy(tile, tile + each_, reinterpret_cast<double*>(starpu_matrix_get_local_ptr(of(tile))));
    starpu_data_release(of(tile));
  }
  void store(double* tile) const {
    must(starpu_data_acquire(of(tile), STARPU_R), "starpu_data_acquire");
    const auto* const from = reinterpret_cast<const double*>(starpu_matrix_get_local_ptr(of(tile)));
    std::copy(from, from + each_, tile);
    starpu_data_release(of(tile));
  }
  starpu_data_handle_t of(const double* tile) const { return all_[static_cast<std::size_t>(tile - base_) / each_]; }

private:
  const double* base_;
  std::size_t each_;
  std::vector<starpu_data_handle_t> all_;
};

double* tile(void* buffer) { return reinterpret_cast<double*>(STARPU_MATRIX_GET_PTR(buffer)); }
std::size_t size(void* buffer) { return STARPU_MATRIX_GET_NX(buffer); }

measurement dgemm(const job& j) {
  start(j.workers, 0);
  static starpu_codelet multiply = codelet(
      [](void** b, void*) { gemm(size(b[0]), tile(b[0]), tile(b[1]), tile(b[2])); }, {STARPU_R, STARPU_R, STARPU_RW});
  struct state {
    explicit state(const job& j) : problem(j), a(problem.a), b(problem.b), c(problem.c) {}
    dgemm_problem problem;
    handles a, b, c;
  };
  auto s = std::make_shared<state>(j);
  return [s] {
    s->problem.prepare();
    const double taken = seconds([&] {
      s->problem.submit([&](const double* a, const double* b, const double* c) {
        submit(multiply, {s->a.of(a), s->b.of(b), s->c.of(c)});
      });
      wait();
    });
    s->problem.check();
    return taken;
  };
}

measurement cholesky(const job& j) {
  const bool owns = j.benchmark.ends_with("_disk"); // STARPU_LIMIT_CPU_MEM says beyond what
  if (owns) starpu_malloc_set_align(4096);          // for transfers past the kernel's cache
  start(j.workers, 0);
  if (owns) {
    static char folder[] = "/var/tmp";
    constexpr starpu_ssize_t room = starpu_ssize_t{4} << 30;
    if (starpu_disk_register(&starpu_disk_unistd_o_direct_ops, folder, room) < 0)
      throw std::runtime_error("StarPU cannot use /var/tmp");
  }
  struct steps {
    const handles& all;
    void potrf(double* a) const {
      static starpu_codelet c =
          codelet([](void** b, void*) { tern::bench::hetero::potrf(size(b[0]), tile(b[0])); }, {STARPU_RW});
      submit(c, {all.of(a)});
    }
    void trsm(const double* l, double* a) const {
      static starpu_codelet c =
          codelet([](void** b, void*) { tern::bench::hetero::trsm(size(b[0]), tile(b[0]), tile(b[1])); },
                  {STARPU_R, STARPU_RW});
      submit(c, {all.of(l), all.of(a)});
    }
    void syrk(const double* a, double* to) const {
      static starpu_codelet c =
          codelet([](void** b, void*) { tern::bench::hetero::syrk(size(b[0]), tile(b[0]), tile(b[1])); },
                  {STARPU_R, STARPU_RW});
      submit(c, {all.of(a), all.of(to)});
    }
    void gemm_minus(const double* a, const double* b, double* to) const {
      static starpu_codelet c = codelet(
          [](void** x, void*) { tern::bench::hetero::gemm_minus(size(x[0]), tile(x[0]), tile(x[1]), tile(x[2])); },
          {STARPU_R, STARPU_R, STARPU_RW});
      submit(c, {all.of(a), all.of(b), all.of(to)});
    }
  };
  struct state {
    state(const job& j, bool owns) : problem(j), all(owns ? handles(problem.a, handles::own()) : handles(problem.a)) {}
    cholesky_problem problem;
    handles all;
  };
  auto s = std::make_shared<state>(j, owns);
  return [s, owns] {
    s->problem.prepare();
    if (owns) s->problem.each_tile([&](double* tile) { s->all.load(tile); });
    const double taken = seconds([&] {
      s->problem.submit(steps{s->all});
      wait();
    });
    if (owns) s->problem.each_tile([&](double* tile) { s->all.store(tile); });
    s->problem.check();
    return taken;
  };
}

#endif

starpu_opencl_program program; // as its interface wants it

/// Adds one to the first elements on the device.
void on_opencl(void** buffers, void*) {
  static cl_kernel kernel = nullptr; // one worker alone comes here
  cl_command_queue queue = nullptr;
  const int device = starpu_worker_get_devid(starpu_worker_get_id_check());
  if (!kernel && starpu_opencl_load_kernel(&kernel, &queue, &program, "add_one", device) != CL_SUCCESS) std::abort();
  starpu_opencl_get_queue(device, &queue);
  cl_mem data = reinterpret_cast<cl_mem>(STARPU_VECTOR_GET_DEV_HANDLE(buffers[0]));
  const std::size_t items = round_trip::touched;
  if (clSetKernelArg(kernel, 0, sizeof data, &data) != CL_SUCCESS ||
      clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, &items, 0, nullptr, nullptr) != CL_SUCCESS)
    std::abort();
}

measurement go_round(const job& j) {
  start(1, 1); // never two tasks at a time: a second worker would only be in the way of the device's threads
  if (starpu_opencl_worker_get_count() == 0) throw not_here("an OpenCL device that StarPU takes (pocl-opencl-icd)");
  if (starpu_opencl_load_opencl_from_string("kernel void add_one(global int* data) { data[get_global_id(0)] += 1; }",
                                            &program, nullptr) != 0)
    throw std::runtime_error("StarPU cannot compile the kernel");
  static starpu_codelet host = codelet(
      [](void** b, void*) { round_trip::on_host(reinterpret_cast<int*>(STARPU_VECTOR_GET_PTR(b[0]))); }, {STARPU_RW});
  static starpu_codelet device = codelet(nullptr, {STARPU_RW});
  device.opencl_funcs[0] = on_opencl;
  device.opencl_flags[0] = STARPU_OPENCL_ASYNC;
  auto all = std::make_shared<round_trip>(j);
  return [all] {
    all->prepare();
    starpu_data_handle_t handle = nullptr;
    starpu_vector_data_register(&handle, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(all->data.data()),
                                static_cast<std::uint32_t>(all->data.size()), sizeof(int));
    // The first round allocates the device's memory.
    const auto rounds = [&](std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) {
        submit(host, {handle});
        submit(device, {handle});
      }
      wait();
      fetch(handle);
    };
    rounds(1);
    must(starpu_data_acquire(handle, STARPU_RW), "starpu_data_acquire");
    for (std::size_t i = 0; i < round_trip::touched; ++i) all->data[i] = 0; // and now the device's copy is old
    starpu_data_release(handle);
    const double taken = seconds([&] { rounds(all->rounds); });
    starpu_data_unregister(handle);
    all->check();
    return taken;
  };
}

#ifdef BENCH_HETERO_BLAS

/// A step on tiles, with the same number of buffers as its kernel has parameters.
template <int step> void step_on_opencl(void** buffers, void*) {
  constexpr const char* names[] = {"potrf", "trsm", "syrk", "gemm_minus"};
  constexpr cl_uint counts[] = {1, 2, 2, 3};
  static cl_kernel kernel = nullptr; // one worker alone comes here
  cl_command_queue queue = nullptr;
  const int device = starpu_worker_get_devid(starpu_worker_get_id_check());
  if (!kernel && starpu_opencl_load_kernel(&kernel, &queue, &program, names[step], device) != CL_SUCCESS) std::abort();
  starpu_opencl_get_queue(device, &queue);
  for (cl_uint i = 0; i < counts[step]; ++i) {
    cl_mem data = reinterpret_cast<cl_mem>(STARPU_MATRIX_GET_DEV_HANDLE(buffers[i]));
    if (clSetKernelArg(kernel, i, sizeof data, &data) != CL_SUCCESS) std::abort();
  }
  constexpr auto edge = static_cast<std::size_t>(opencl_tiles::edge);
  constexpr std::size_t items[] = {edge, opencl_tiles::blocks_of_columns}, in_group[] = {edge, 1};
  constexpr bool square = step >= 2;
  if (clEnqueueNDRangeKernel(queue, kernel, square ? 2 : 1, nullptr, items, in_group, 0, nullptr, nullptr) !=
      CL_SUCCESS)
    std::abort();
}

template <int step> starpu_codelet& codelet_on_opencl(std::initializer_list<starpu_data_access_mode> modes) {
  static starpu_codelet c = [&] {
    starpu_codelet made = codelet(nullptr, modes);
    made.opencl_funcs[0] = step_on_opencl<step>;
    made.opencl_flags[0] = STARPU_OPENCL_ASYNC;
    return made;
  }();
  return c;
}

/// STARPU_LIMIT_OPENCL_MEM says how much the device has.
measurement cholesky_on_opencl(const job& j) {
  start(0, 1); // no task of the host's: its workers would only be in the way of the device's
  if (starpu_opencl_worker_get_count() == 0) throw not_here("an OpenCL device that StarPU takes (pocl-opencl-icd)");
  if (starpu_opencl_load_opencl_from_string(opencl_tiles::text, &program, nullptr) != 0)
    throw std::runtime_error("StarPU cannot compile the kernels");
  struct steps {
    const handles& all;
    void potrf(double* a) const { submit(codelet_on_opencl<0>({STARPU_RW}), {all.of(a)}); }
    void trsm(const double* l, double* a) const {
      submit(codelet_on_opencl<1>({STARPU_R, STARPU_RW}), {all.of(l), all.of(a)});
    }
    void syrk(const double* a, double* to) const {
      submit(codelet_on_opencl<2>({STARPU_R, STARPU_RW}), {all.of(a), all.of(to)});
    }
    void gemm_minus(const double* a, const double* b, double* to) const {
      submit(codelet_on_opencl<3>({STARPU_R, STARPU_R, STARPU_RW}), {all.of(a), all.of(b), all.of(to)});
    }
  };
  struct state {
    explicit state(const job& job) : problem(job), all(problem.a) {}
    cholesky_problem problem;
    handles all;
  };
  auto s = std::make_shared<state>(j);
  return [s] {
    s->problem.each_tile([&](double* tile) {
      must(starpu_data_acquire(s->all.of(tile), STARPU_W), "starpu_data_acquire");
      starpu_data_release(s->all.of(tile));
    });
    s->problem.prepare(); // what the device has is old
    const double taken = seconds([&] {
      s->problem.submit(steps{s->all});
      wait();
    });
    s->problem.each_tile([&](double* tile) { fetch(s->all.of(tile)); });
    s->problem.check();
    return taken;
  };
}

#endif

measurement make(const job& j) {
  if (counting::is_meant(j.benchmark)) return count(j);
  if (j.benchmark == "roundtrip") return go_round(j);
#ifdef BENCH_HETERO_BLAS
  openblas_set_num_threads(1); // tasks are what runs in parallel
  if (j.benchmark == "dgemm") return dgemm(j);
  if (j.benchmark.ends_with("_opencl")) return cholesky_on_opencl(j);
  if (cholesky_problem::is_meant(j.benchmark)) return cholesky(j);
#else
  if (j.benchmark == "dgemm" || j.benchmark.starts_with("cholesky")) throw not_here("OpenBLAS: libopenblas-dev");
#endif
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) { answer_requests(j, make); });
}
