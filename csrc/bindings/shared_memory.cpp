#include "bindings/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace nb = nanobind;

namespace fl::py {
namespace {

// Python's own mmap duplicates the descriptor, so that a tensor would cost two of the thousand that a process has.
class SharedMemory {
 public:
  // The descriptor is this object's from now on, also where this throws.
  SharedMemory(int fd, size_t size_bytes) : fd_(fd), size_bytes_(size_bytes) {
    data_ = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data_ != MAP_FAILED) return;
    PyErr_SetFromErrno(PyExc_OSError);
    ::close(fd);
    throw nb::python_error();
  }
  ~SharedMemory() {
    ::munmap(data_, size_bytes_);
    ::close(fd_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int fd() const { return fd_; }
  size_t size_bytes() const { return size_bytes_; }
  void* data() const { return data_; }

 private:
  int fd_;
  size_t size_bytes_;
  void* data_;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const SharedMemory& memory = *nb::inst_ptr<SharedMemory>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, memory.data(), static_cast<Py_ssize_t>(memory.size_bytes()), 0, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void init_shared_memory(nb::module_& m) {
  nb::class_<SharedMemory>(m, "SharedMemory", nb::type_slots(slots), nb::is_weak_referenceable())
      .def(nb::init<int, size_t>(), nb::arg("fd"), nb::arg("size"))
      .def_prop_ro("fd", &SharedMemory::fd)
      .def("__len__", &SharedMemory::size_bytes);
}

}  // namespace fl::py
