import { CodedError } from '../base/index.ts';

export interface DeviceAddress {
  readonly device: string;
  readonly family: 'ipv4' | 'ipv6';
  readonly address: string;
}

/** `FAILED`: the kernel did not list its addresses. */
export class DeviceAddressError extends CodedError<'FAILED'> {}

/** Address families, and where their bytes are in a `sockaddr`. */
const families = {
  2: { family: 'ipv4', offset: 4, length: 4 },
  10: { family: 'ipv6', offset: 8, length: 16 },
} as const;

interface Entry {
  readonly next: unknown;
  readonly name: string;
  readonly address: unknown;
}

interface AddressCalls {
  readonly getifaddrs: (list: [unknown]) => number;
  readonly freeifaddrs: (list: unknown) => void;
  readonly entryAt: (at: unknown) => Entry;
  readonly familyAt: (at: unknown) => number;
  readonly bytesAt: (at: unknown, offset: number, length: number) => Uint8Array;
}

let loaded: Promise<AddressCalls> | undefined;

function addressCalls(): Promise<AddressCalls> {
  loaded ??= import('koffi').then(({ default: koffi }) => {
    const library = koffi.load(null);
    const entry = koffi.struct({
      next: 'void *',
      name: 'char *',
      flags: 'uint',
      address: 'void *',
      netmask: 'void *',
      destination: 'void *',
      data: 'void *',
    });
    return {
      getifaddrs: library.func('int getifaddrs(_Out_ void **list)'),
      freeifaddrs: library.func('void freeifaddrs(void *list)'),
      entryAt: (at) => koffi.decode(at, entry) as Entry,
      familyAt: (at) => koffi.decode(at, 'uint16') as number,
      bytesAt: (at, offset, length) => koffi.decode(at, offset, koffi.array('uint8', length)) as Uint8Array,
    };
  });
  return loaded;
}

/**
 * Addresses of all network devices of this process's network namespace. `os.networkInterfaces()` leaves out devices without a
 * carrier: a pod's device must not lose its address family because its other end was slow. Rejects with `DeviceAddressError`.
 */
export async function readDeviceAddresses(): Promise<readonly DeviceAddress[]> {
  const calls = await addressCalls();
  const list: [unknown] = [null];
  if (calls.getifaddrs(list) !== 0) {
    throw new DeviceAddressError('FAILED', 'the kernel did not list the addresses of the network devices');
  }
  try {
    return addressesFrom(list[0], calls);
  } finally {
    calls.freeifaddrs(list[0]);
  }
}

function addressesFrom(first: unknown, { entryAt, familyAt, bytesAt }: AddressCalls): DeviceAddress[] {
  const found: DeviceAddress[] = [];
  for (let at = first; at; ) {
    const { next, name, address } = entryAt(at);
    const known = address ? families[familyAt(address) as keyof typeof families] : undefined;
    if (known) {
      const bytes = bytesAt(address, known.offset, known.length);
      found.push({ device: name, family: known.family, address: addressText(bytes) });
    }
    at = next;
  }
  return found;
}

/** Not shortened: nobody reads it but programs. */
function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, at) =>
    (((bytes[2 * at] ?? 0) << 8) | (bytes[2 * at + 1] ?? 0)).toString(16),
  );
  return groups.join(':');
}
