/**
 * On Windows a binary names the program that has Node-API's functions, and that is node.exe. Electron and single
 * executables are called otherwise: this hook of the delayed loading takes the program that runs. cmake-js has the same
 * for cl alone.
 */
#if defined(_WIN32) && !defined(_MSC_VER)
#include <windows.h>
// It takes the types of that.
#include <delayimp.h>

#include <cstring>

namespace {

FARPROC WINAPI findHostProgram(unsigned event, DelayLoadInfo* info) {
  if (event != dliNotePreLoadLibrary || _stricmp(info->szDll, "node.exe") != 0) return nullptr;
  return reinterpret_cast<FARPROC>(GetModuleHandleW(nullptr));
}

}  // namespace

PfnDliHook __pfnDliNotifyHook2 = findHostProgram;
#endif
