// Every exception Heddle throws derives from heddle::Error.
#pragma once

#include <stdexcept>
#include <string>

namespace heddle {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller's mistakes.
class ShapeError : public Error {
  using Error::Error;
};  // shapes that do not fit the operator
class DTypeError : public Error {
  using Error::Error;
};  // dtypes that do not fit the operator
class IndexError : public Error {
  using Error::Error;
};  // an axis or element index out of range
class ValueError : public Error {
  using Error::Error;
};  // any other bad argument
class CaptureError : public Error {
  using Error::Error;
};  // a function that jit() or vmap() cannot record, or that changed after jit() recorded it
class ParseError : public Error {
  using Error::Error;
};  // malformed text or file

// The world's.
class OutOfMemory : public Error {
  using Error::Error;
};
class DeviceError : public Error {
  using Error::Error;
};
class CompileError : public Error {
  using Error::Error;
};

// Ours: an invariant of Heddle does not hold. Always a bug worth reporting.
class InternalError : public Error {
  using Error::Error;
};

}  // namespace heddle
