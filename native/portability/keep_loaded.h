#pragma once

namespace warpconv {

/**
 * Keeps the binary that this is linked into in the process, where Node.js would unload it with the worker that loaded it:
 * outputs outlive that worker, and come back by a function of the binary. On Linux the linker sees to it (-z nodelete).
 */
void keepLoaded() noexcept;

}  // namespace warpconv
