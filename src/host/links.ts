import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

export interface NetworkLink {
  readonly name: string;
  /** Another device that gets the same name has another one. */
  readonly index?: number;
  /** Absent when the device has none (all zero). */
  readonly mac?: string;
  readonly mtu?: number;
}

/** Network devices of this process's network namespace, by name. */
export async function readNetworkLinks(sysClassNet = '/sys/class/net'): Promise<Map<string, NetworkLink>> {
  const links = new Map<string, NetworkLink>();
  for (const name of await readdir(sysClassNet)) {
    const mac = await readAttribute(path.join(sysClassNet, name, 'address'));
    const index = Number(await readAttribute(path.join(sysClassNet, name, 'ifindex')));
    const mtu = Number(await readAttribute(path.join(sysClassNet, name, 'mtu')));
    const hasMac = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(mac) && mac !== '00:00:00:00:00:00';
    links.set(name, { name, ...(index > 0 && { index }), ...(hasMac && { mac }), ...(mtu > 0 && { mtu }) });
  }
  return links;
}

/** In this process's network namespace, with an address or without. */
export function hasNetworkLink(name: string): boolean {
  return existsSync(path.join('/sys/class/net', name));
}

/** A device may vanish between listing and reading: then it simply has no attributes. */
async function readAttribute(file: string): Promise<string> {
  return readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => '',
  );
}
