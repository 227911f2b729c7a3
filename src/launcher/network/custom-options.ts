import type { DhcpOptions } from '../../api/index.ts';
import { ipv4Bytes } from '../../base/index.ts';
import type { CustomOptions } from './dhcp4/lease.ts';
import { NetworkError } from './errors.ts';

const firstPrivate = 224;
const lastPrivate = 254;
const maxText = 255;
const maxEntries = 32;

/**
 * `dhcpOptions` of an interface, as upstream's API server lets them through. What could not be sent is refused before the start, where
 * upstream's launcher panics or leaves it out. Throws `NetworkError` INVALID_OPTIONS.
 */
export function customOptions(field: string, given: DhcpOptions = {}): CustomOptions {
  const { bootFileName, tftpServerName, ntpServers = [], privateOptions = [] } = given;
  const at = `${field}.dhcpOptions`;
  if (ntpServers.length > maxEntries || privateOptions.length > maxEntries) {
    throw wrong(at, `at most ${maxEntries} servers and ${maxEntries} private options are possible`);
  }
  for (const server of ntpServers) {
    if (!ipv4Bytes(server)) throw wrong(`${at}.ntpServers`, `${JSON.stringify(server)} is no IPv4 address`);
  }
  return {
    ...(bootFileName && { bootFileName: text(`${at}.bootFileName`, bootFileName) }),
    ...(tftpServerName && { tftpServerName: text(`${at}.tftpServerName`, tftpServerName) }),
    ntpServers,
    privateOptions: privateOptions.map(({ option, value }) => privateOption(`${at}.privateOptions`, option, value)),
  };
}

function privateOption(field: string, code: number, value: string): { readonly code: number; readonly value: string } {
  if (!Number.isInteger(code) || code < firstPrivate || code > lastPrivate) {
    throw wrong(field, `option ${code} is not private: use ${firstPrivate} to ${lastPrivate}`);
  }
  return { code, value: text(field, value ?? '') };
}

function text(field: string, value: string): string {
  if (Buffer.byteLength(value) <= maxText) return value;
  throw wrong(field, `has more than ${maxText} bytes, which no DHCP option can hold`);
}

function wrong(field: string, problem: string): NetworkError {
  return new NetworkError('INVALID_OPTIONS', `${field}: ${problem}`);
}
