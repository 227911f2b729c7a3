import { isRecord, listOf, memberAt, shortened, whyUnsafe } from '../../../base/index.ts';

export interface PciResource {
  readonly resource: string;
  /** `vendor:device`, four lower-case hexadecimal digits each. */
  readonly selectors: readonly string[];
}

export interface MediatedResource {
  readonly resource: string;
  /** Names of types, with `_` for each space. */
  readonly types: readonly string[];
}

export interface UsbSelector {
  readonly vendor: number;
  readonly product: number;
}

export interface UsbResource {
  readonly resource: string;
  /** Each lists the devices that one pod gets together. */
  readonly sets: readonly (readonly UsbSelector[])[];
}

/** `permittedHostDevices` of the KubeVirt object, without what others provide. Each resource is in one list, once. */
export interface HostDevices {
  readonly pci: readonly PciResource[];
  readonly mediated: readonly MediatedResource[];
  readonly usb: readonly UsbResource[];
}

interface Entry<T> {
  readonly resource: string;
  readonly selector: T;
}

/** Reads the value at its place in the list, or says in words why it cannot be used. */
type ReadSelector<T> = (entry: unknown) => T | { readonly problem: string };

const shownDepth = 16;

const domain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const name = /^[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?$/;

/** The agent's own resources; names beside them in the same domain are the administrator's, and in use for NVMe disks. */
const ownDomain = 'devices.kubevirt.io';
const ownNames = new Set(['kvm', 'mshv', 'tun', 'vhost-net', 'vhost-vsock', 'sev', 'tdx', 'pr-helper', 'iommufd']);

/** Entries that cannot be used are left out, each with a reason; the others count. */
export function readHostDevices(permitted: unknown): { readonly devices: HostDevices; readonly problems: string[] } {
  const problems: string[] = [];
  const taken = new Map<string, string>();
  const read = <T>(list: string, readSelector: ReadSelector<T>): Map<string, T[]> =>
    readList(permitted, list, { readSelector, taken, problems });
  const pci = read<string>('pciHostDevices', pciSelector);
  const mediated = read<string>('mediatedDevices', mediatedType);
  const usb = read<UsbSelector[]>('usb', usbSet);
  const devices = {
    pci: [...pci].map(([resource, selectors]) => ({ resource, selectors })),
    mediated: [...mediated].map(([resource, types]) => ({ resource, types })),
    usb: [...usb].map(([resource, sets]) => ({ resource, sets })),
  };
  return { devices, problems };
}

interface ListContext<T> {
  readonly readSelector: ReadSelector<T>;
  /** Resource → the list that has it. */
  readonly taken: Map<string, string>;
  readonly problems: string[];
}

function readList<T>(permitted: unknown, list: string, context: ListContext<T>): Map<string, T[]> {
  const { readSelector, taken, problems } = context;
  const given = memberAt(permitted, list);
  const found = new Map<string, T[]>();
  if (given !== undefined && !Array.isArray(given)) problems.push(`permittedHostDevices.${list} is no list`);
  for (const [index, each] of listOf(given).entries()) {
    if (memberAt(each, 'externalResourceProvider') === true) continue;
    const entry = readEntry(each, readSelector);
    const owner = 'problem' in entry ? list : (taken.get(entry.resource) ?? list);
    const problem = 'problem' in entry ? entry.problem : inAnotherList(entry, owner, list);
    if ('problem' in entry || problem !== undefined) {
      problems.push(`permittedHostDevices.${list}[${index}]: ${problem}`);
      continue;
    }
    taken.set(entry.resource, list);
    found.set(entry.resource, [...(found.get(entry.resource) ?? []), entry.selector]);
  }
  return found;
}

function inAnotherList({ resource }: Entry<unknown>, owner: string, list: string): string | undefined {
  return owner === list ? undefined : `resource ${resource} is in ${owner} already: use another name`;
}

function readEntry<T>(entry: unknown, readSelector: ReadSelector<T>): Entry<T> | { readonly problem: string } {
  const resource = memberAt(entry, 'resourceName');
  const problem = resourceProblem(resource);
  if (problem !== undefined || typeof resource !== 'string') return { problem: problem ?? 'no resourceName' };
  const selector = readSelector(entry);
  if (isRecord(selector) && 'problem' in selector) return { problem: String(selector.problem) };
  return { resource, selector: selector as T };
}

/** The kubelet takes extended resources only: `domain/name`, and none of Kubernetes' own. */
function resourceProblem(resource: unknown): string | undefined {
  const shown = shownValue(resource);
  if (typeof resource !== 'string') return `resourceName ${shown} is no text`;
  const [first = '', second = '', ...more] = resource.split('/');
  const isName = more.length === 0 && first.length <= 253 && second.length <= 63;
  if (!isName || !domain.test(first) || !name.test(second)) {
    return `resourceName ${shown} is not of the form example.com/name`;
  }
  if (first.endsWith('kubernetes.io') || first.startsWith('requests.')) {
    return `resourceName ${shown} is in a domain of Kubernetes' own: use another one`;
  }
  if (first === ownDomain && ownNames.has(second)) return `resourceName ${shown} is KubeVirt's own: use another one`;
  return undefined;
}

function pciSelector(entry: unknown): string | { problem: string } {
  const given = memberAt(entry, 'pciVendorSelector');
  if (typeof given === 'string' && /^[0-9a-fA-F]{4}:[0-9a-fA-F]{4}$/.test(given)) return given.toLowerCase();
  return { problem: `pciVendorSelector ${shownValue(given)} is not of the form 10de:1eb8` };
}

function mediatedType(entry: unknown): string | { problem: string } {
  const given = memberAt(entry, 'mdevNameSelector');
  if (typeof given === 'string' && given.trim() !== '') return typeName(given);
  return { problem: `mdevNameSelector ${shownValue(given)} names no type` };
}

/** Types are compared with `_` for each space (pkg/virt-handler/device-manager/mediated_device.go). */
export function typeName(text: string): string {
  return text.trim().replaceAll(' ', '_');
}

function usbSet(entry: unknown): UsbSelector[] | { problem: string } {
  const given = listOf(memberAt(entry, 'selectors'));
  const selectors = given.map((each) => ({
    vendor: hexadecimal(memberAt(each, 'vendor')),
    product: hexadecimal(memberAt(each, 'product')),
  }));
  const usable = selectors.filter(isUsbSelector);
  if (given.length === 0) return { problem: 'it has no selectors' };
  if (usable.length === given.length) return usable;
  return { problem: `selectors ${shownValue(given)} are not all like {vendor: "046d", product: "c52b"}` };
}

function isUsbSelector(selector: { vendor: number | undefined; product: number | undefined }): selector is UsbSelector {
  return selector.vendor !== undefined && selector.product !== undefined;
}

function hexadecimal(value: unknown): number | undefined {
  return typeof value === 'string' && /^[0-9a-fA-F]{1,4}$/.test(value) ? Number.parseInt(value, 16) : undefined;
}

/** What is nested without end overflows the stack of the function that writes it. */
function shownValue(value: unknown): string {
  if (whyUnsafe(value, shownDepth) !== undefined) return `(nested deeper than ${shownDepth} levels)`;
  return shortened(JSON.stringify(value) ?? 'undefined', 120);
}
