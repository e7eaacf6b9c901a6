/** What memory is admitted, on machines that are pretended. */
import { admit, allocate, availableMemory, LEAST_CHECKED_BYTES } from '../../lib/tensor/allocation';
import { addon } from '../../lib/load';
import { pretendMachine, restoreMachine } from '../support/memory';

const GIB = 2 ** 30;
const OUT_OF_MEMORY = 'ERR_WARPCONV_OUT_OF_MEMORY';
const MACHINE = { total: 16 * GIB, free: 10 * GIB };

afterEach(restoreMachine);

describe('what is available', () => {
  it('is what is free, where nothing limits the process', () => {
    pretendMachine(MACHINE);
    expect(availableMemory()).toBe(10 * GIB);
    pretendMachine({ ...MACHINE, limit: 0 });
    expect(availableMemory()).toBe(10 * GIB);
  });

  it('is what is free, where /proc is not mounted', () => {
    pretendMachine({ ...MACHINE, limit: 0, left: 0 });
    expect(availableMemory()).toBe(10 * GIB);
  });

  it('is what is left of a limit', () => {
    pretendMachine({ ...MACHINE, limit: 4 * GIB, left: GIB });
    expect(availableMemory()).toBe(GIB);
  });

  it('is no more than what is free, whatever a limit leaves', () => {
    pretendMachine({ ...MACHINE, limit: 15 * GIB, left: 14 * GIB });
    expect(availableMemory()).toBe(10 * GIB);
  });

  const statistics = (prefix: string) =>
    ['anon 5', `${prefix}inactive_file ${GIB}`, `${prefix}active_file ${GIB}`, 'inactive_file_x 7', ''].join(
      '\n',
    );

  it.each<[string, string, string, string]>([
    ['version 2, in a container', '0::/\n', '/sys/fs/cgroup/memory.stat', ''],
    ['version 2, in a slice', '0::/a.slice/b\n', '/sys/fs/cgroup/a.slice/b/memory.stat', ''],
    ['version 1', '9:name=x:/\n4:memory:/a/b\n0::/\n', '/sys/fs/cgroup/memory/a/b/memory.stat', 'total_'],
    ['version 1, in a container', '4:cpu,memory:/a/b\n', '/sys/fs/cgroup/memory/memory.stat', 'total_'],
  ])('counts what the kernel gives back of files, in groups of %s', (_, groups, file, prefix) => {
    const files = { '/proc/self/cgroup': groups, [file]: statistics(prefix) };
    pretendMachine({ ...MACHINE, limit: 4 * GIB, left: GIB, files });
    expect(availableMemory()).toBe(GIB + GIB + GIB / 2);
  });

  it('is the memory of the machine where Linux does not run', () => {
    pretendMachine({ ...MACHINE, platform: 'darwin' });
    expect(availableMemory()).toBe(16 * GIB);
  });

  it('is some, on this machine', () => {
    expect(availableMemory()).toBeGreaterThan(2 ** 20);
  });
});

describe('an allocation', () => {
  const make = jest.fn(() => 'made');
  beforeEach(() => make.mockClear());

  it('of what is available is made', () => {
    pretendMachine(MACHINE);
    expect(allocate({ what: 'an output', bytes: 10 * GIB }, make)).toBe('made');
  });

  it('of more is refused before it is made', () => {
    pretendMachine(MACHINE);
    const purpose = { what: 'an output', dims: [5, 2], bytes: 10 * GIB, scratchBytes: 1 };
    expect(() => allocate(purpose, make)).toThrow(
      expect.objectContaining({
        code: OUT_OF_MEMORY,
        message:
          `cannot allocate ${10 * GIB} bytes for an output of dims [5, 2] and 1 of scratch memory: ` +
          `${10 * GIB} bytes are available; work on fewer images at a time`,
      }),
    );
    expect(make).not.toHaveBeenCalled();
  });

  it('of little is made without asking', () => {
    pretendMachine({ ...MACHINE, free: 0 });
    admit({ what: 'an output', bytes: LEAST_CHECKED_BYTES - 1 });
    expect(() => admit({ what: 'an output', bytes: LEAST_CHECKED_BYTES })).toThrow(/0 bytes are available/);
  });

  it('that is not available is made where former outputs leave enough', () => {
    pretendMachine(MACHINE);
    const release = jest.spyOn(addon(), 'releaseIdleOutputs');
    release.mockImplementation(() => pretendMachine({ ...MACHINE, free: 12 * GIB }));
    expect(allocate({ what: 'an output', bytes: 12 * GIB }, make)).toBe('made');
    expect(release).toHaveBeenCalledTimes(1);
    expect(allocate({ what: 'an output', bytes: 12 * GIB }, make)).toBe('made');
    expect(release).toHaveBeenCalledTimes(1);
  });

  it('that the runtime refuses says so', () => {
    pretendMachine(MACHINE);
    const refuse = () => new Uint8Array(2 ** 60);
    expect(() => allocate({ what: 'the model', bytes: 5 }, refuse)).toThrow(
      expect.objectContaining({
        code: OUT_OF_MEMORY,
        message: expect.stringContaining('cannot allocate 5 bytes for the model: the runtime') as string,
        cause: expect.objectContaining({ name: 'RangeError' }) as object,
      }),
    );
  });
});
