import { annotations, type KeptVirtualMachine, type VirtualMachineClone } from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';

type Operation =
  | { readonly op: 'add'; readonly path: string; readonly value: string }
  | { readonly op: 'remove'; readonly path: string };

/**
 * What makes another machine of a VM, as JSON patches: addresses, serial number and identity of its own, and of its labels and annotations those that
 * the filters let through (upstream: generatePatches in pkg/virt-controller/watch/clone/vm-target.go). Pure.
 */
export function clonePatches({ metadata, spec }: KeptVirtualMachine, clone: VirtualMachineClone): string[] {
  const { newMacAddresses = {}, newSMBiosSerial, labelFilters, annotationFilters, template, patches = [] } = clone.spec;
  const domain = '/spec/template/spec/domain';
  const links = listOf(memberAt(spec, 'template', 'spec', 'domain', 'devices', 'interfaces'));
  const ofLinks = links.map((link, index): Operation => {
    const name = memberAt(link, 'name');
    const value = typeof name === 'string' ? (newMacAddresses[name] ?? '') : '';
    return { op: 'add', path: `${domain}/devices/interfaces/${index}/macAddress`, value };
  });
  const hasFirmware = isRecord(memberAt(spec, 'template', 'spec', 'domain', 'firmware'));
  const needsFirmware = !hasFirmware && newSMBiosSerial !== undefined;
  const ofFirmware: Operation[] = hasFirmware
    ? [
        { op: 'add', path: `${domain}/firmware/serial`, value: newSMBiosSerial ?? '' },
        { op: 'add', path: `${domain}/firmware/uuid`, value: '' },
      ]
    : [];
  const { [annotations.lastRestore]: _, ...noted } = metadata?.annotations ?? {};
  const inner = spec.template.metadata;
  const operations = [
    ...ofLinks,
    ...ofFirmware,
    ...removals(metadata?.labels, labelFilters, '/metadata/labels'),
    ...removals(noted, annotationFilters, '/metadata/annotations'),
    ...removals(inner?.labels, template?.labelFilters, '/spec/template/metadata/labels'),
    ...removals(inner?.annotations, template?.annotationFilters, '/spec/template/metadata/annotations'),
  ].map((operation) => JSON.stringify(operation));
  const made = needsFirmware
    ? [JSON.stringify({ op: 'add', path: `${domain}/firmware`, value: { serial: newSMBiosSerial } })]
    : [];
  return [...operations, ...made, ...patches];
}

function removals(
  present: Readonly<Record<string, string>> | undefined,
  filters: readonly string[] | undefined,
  path: string,
): Operation[] {
  if (!Array.isArray(filters)) return [];
  return Object.keys(present ?? {})
    .filter((key) => !isKept(key, filters))
    .map((key) => ({ op: 'remove', path: `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}` }));
}

/** What takes away counts before what lets through. */
export function isKept(key: string, filters: readonly string[]): boolean {
  const isNegative = (filter: string) => filter.startsWith('!');
  if (filters.some((filter) => isNegative(filter) && fits(key, filter.slice(1)))) return false;
  return filters.some((filter) => !isNegative(filter) && fits(key, filter));
}

function fits(key: string, filter: string): boolean {
  return filter.endsWith('*') ? key.startsWith(filter.slice(0, -1)) : key === filter;
}
