// How often the calling thread has called operator new: the whole test program counts. Under sanitizers always 0.
#pragma once

namespace heddle::testing {
long allocations();
}
