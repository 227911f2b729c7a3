import { labels as kubevirtLabels, type VirtualMachineInstance } from '../../../api/index.ts';
import { isRecord } from '../../../base/index.ts';
import { type Label, labelText } from '../../../serving/index.ts';
import { outsideText, valueLength } from './outside-text.ts';

/** Labels of a VMI beyond these limits cost memory in every Prometheus that scrapes the node; they are left out. */
export const labelLimits = { count: 64, keyLength: 320, valueLength, totalLength: 4096 } as const;

const prefix = 'kubernetes_vmi_label_';

/**
 * What every series of a VM carries: node, namespace, name, and the labels of the VMI. Two keys that become one
 * name (`a.b`, `a/b`) would make the whole answer invalid: the first in the order of the alphabet counts.
 */
export function vmLabels(vmi: VirtualMachineInstance): string {
  return labelText([...commonOf(vmi), ...labelsOf(vmi)]);
}

/** Series of migrations, which do not carry the labels of the VMI. */
export function bareVmLabels(vmi: VirtualMachineInstance): string {
  return labelText(commonOf(vmi));
}

function commonOf({ metadata, status }: VirtualMachineInstance): Label[] {
  const { namespace = '', name = '' } = metadata;
  return [
    ['node', outsideText(status?.nodeName)],
    ['namespace', namespace],
    ['name', name],
  ];
}

function labelsOf(vmi: VirtualMachineInstance): Label[] {
  const given: unknown = vmi.metadata.labels;
  if (!isRecord(given)) return [];
  const seen = new Set<string>();
  const found: Label[] = [];
  let length = 0;
  for (const key of Object.keys(given).sort()) {
    const value = outsideText(given[key]);
    if (key.length > labelLimits.keyLength || value === '') continue;
    const name = `${prefix}${key.replace(/[^a-zA-Z0-9_]/g, '_')}`;
    if (seen.has(name)) continue;
    // Each series of the VM repeats them all.
    length += name.length + value.length;
    if (length > labelLimits.totalLength) break;
    seen.add(name);
    found.push([name, value]);
    if (found.length === labelLimits.count) break;
  }
  return found;
}

/** Upstream's source informer: VMIs that this node has, not those that are on their way to it. */
export function isOfNode(vmi: VirtualMachineInstance, nodeName: string): boolean {
  return vmi.metadata.labels?.[kubevirtLabels.nodeName] === nodeName;
}
