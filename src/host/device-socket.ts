import { createSocket, type Socket } from 'node:dgram';
import { closeSync } from 'node:fs';
import util from 'node:util';
import { CodedError, errorMessage } from '../base/index.ts';

export type DeviceSocketErrorCode =
  /** The device is not in this network namespace. */
  | 'NO_DEVICE'
  /** A port below 1024 without CAP_NET_BIND_SERVICE. */
  | 'NOT_ALLOWED'
  | 'PORT_IN_USE'
  | 'FAILED';

export class DeviceSocketError extends CodedError<DeviceSocketErrorCode> {}

export interface DeviceSocketOptions {
  readonly family: 'udp4' | 'udp6';
  readonly port: number;
  /** Nothing from another network device is received, nothing is sent by another one: socket(7), SO_BINDTODEVICE. */
  readonly device: string;
  /** Multicast group to join on the device. */
  readonly group?: string;
}

type SetSockOpt = (fd: number, level: number, name: number, value: Buffer, length: number) => number;

interface SocketCalls {
  readonly socket: (domain: number, type: number, protocol: number) => number;
  readonly setsockopt: SetSockOpt;
  readonly bind: (fd: number, address: Buffer, length: number) => number;
  readonly errno: () => number;
}

const domains = { udp4: 2, udp6: 10 } as const;
/** SOCK_DGRAM, SOCK_NONBLOCK and SOCK_CLOEXEC of all architectures that Node.js runs on, but MIPS. */
const datagram = 2 | 0o4000 | 0o2000000;
const solSocket = 1;
const soBindToDevice = 25;
const ipprotoIpv6 = 41;
const ipv6V6Only = 26;
const on = Buffer.from(new Int32Array([1]).buffer);

const codes: Readonly<Record<string, DeviceSocketErrorCode>> = {
  ENODEV: 'NO_DEVICE',
  EACCES: 'NOT_ALLOWED',
  EPERM: 'NOT_ALLOWED',
  EADDRINUSE: 'PORT_IN_USE',
};

let loaded: Promise<SocketCalls> | undefined;

/** Loaded at the first use: some milliseconds and MiB that only programs with such sockets pay. */
function socketCalls(): Promise<SocketCalls> {
  loaded ??= import('koffi').then(({ default: koffi }) => {
    const library = koffi.load(null);
    return {
      socket: library.func('int socket(int domain, int type, int protocol)'),
      setsockopt: library.func(
        'int setsockopt(int fd, int level, int name, const uint8_t *value, uint32_t length)',
      ) as SetSockOpt,
      bind: library.func('int bind(int fd, const uint8_t *address, uint32_t length)'),
      errno: () => koffi.errno(),
    } as SocketCalls;
  });
  return loaded;
}

/**
 * A UDP socket of any address on one network device; Node.js has no option for that. Several devices can have one each on the same
 * port. It has begun to listen; whoever gets it closes it. Rejects with `DeviceSocketError`.
 */
export async function openDeviceSocket(options: DeviceSocketOptions): Promise<Socket> {
  const fd = boundDescriptor(options, await socketCalls());
  const socket = createSocket(options.family);
  try {
    await listening(socket, fd);
    if (options.family === 'udp4') socket.setBroadcast(true);
    if (options.group) socket.addMembership(options.group, `::%${options.device}`);
    return socket;
  } catch (cause) {
    socket.close();
    throw failed(options, errorMessage(cause), cause);
  }
}

function boundDescriptor(options: DeviceSocketOptions, calls: SocketCalls): number {
  const { family, port, device } = options;
  const fd = calls.socket(domains[family], datagram, 0);
  if (fd < 0) throw systemError(options, 'socket', calls.errno());
  const name = Buffer.from(`${device}\0`);
  const address = anyAddress(family, port);
  const steps: readonly (readonly [string, () => number])[] = [
    ['IPV6_V6ONLY', () => (family === 'udp6' ? calls.setsockopt(fd, ipprotoIpv6, ipv6V6Only, on, on.length) : 0)],
    ['SO_BINDTODEVICE', () => calls.setsockopt(fd, solSocket, soBindToDevice, name, name.length)],
    ['bind', () => calls.bind(fd, address, address.length)],
  ];
  for (const [what, step] of steps) {
    if (step() === 0) continue;
    const error = systemError(options, what, calls.errno());
    closeSync(fd);
    throw error;
  }
  return fd;
}

/** `sockaddr_in` or `sockaddr_in6` with all bits of the address zero. */
function anyAddress(family: 'udp4' | 'udp6', port: number): Buffer {
  const address = Buffer.alloc(family === 'udp4' ? 16 : 28);
  new Uint16Array(address.buffer, address.byteOffset, 1)[0] = domains[family];
  address.writeUInt16BE(port, 2);
  return address;
}

/** From here on the descriptor is the socket's, which closes it. */
function listening(socket: Socket, fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.bind({ fd, exclusive: true }, () => {
      socket.off('error', reject);
      resolve();
    });
  });
}

function systemError(options: DeviceSocketOptions, what: string, errno: number): DeviceSocketError {
  const name = util.getSystemErrorName(-errno);
  return new DeviceSocketError(codes[name] ?? 'FAILED', `${messageOf(options)}: ${what}: ${name}`);
}

function failed(options: DeviceSocketOptions, problem: string, cause: unknown): DeviceSocketError {
  return new DeviceSocketError('FAILED', `${messageOf(options)}: ${problem}`, { cause });
}

function messageOf({ family, port, device }: DeviceSocketOptions): string {
  return `a ${family} socket cannot be bound to port ${port} of the network device ${device}`;
}
