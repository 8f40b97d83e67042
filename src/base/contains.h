// Elements of lists.
#pragma once

#include <algorithm>

namespace heddle {

// Whether a list has an element.
template <class List, class T>
bool contains(const List& list, const T& element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

// Where in a list an element is first; the list's size if it is not there.
template <class List, class T>
size_t position_of(const List& list, const T& element) {
  return static_cast<size_t>(std::find(list.begin(), list.end(), element) - list.begin());
}

// The elements in ascending order, each once.
template <class List>
void sort_unique(List& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace heddle
