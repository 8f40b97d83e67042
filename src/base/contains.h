// Whether a list has an element.
#pragma once

#include <algorithm>

namespace heddle {

template <class List, class T>
bool contains(const List& list, const T& element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

}  // namespace heddle
