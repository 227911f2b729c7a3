import { finalizers, type VirtualMachineInstance } from '../../api/index.ts';
import { copyJson, isRecord, rfc3339, sameJson } from '../../base/index.ts';
import type { Admission, AdmissionContext, ClusterDefaults } from '../api-type.ts';
import { type FieldError, invalidField, requiredField } from '../errors.ts';
import { type ApiObject, at, ensureObject, type JsonObject, numberAt } from '../object.ts';
import { hotplugProblems } from './hotplug.ts';
import { takeIn } from './take-in.ts';
import { fillVmiSpec } from './vmi-defaults.ts';
import { checkUtilityVolumes } from './vmi-disk-rules.ts';
import { nameQuoteSocket } from './vmi-launch-security.ts';
import { checkVmiSpec } from './vmi-rules.ts';
import { vmiSpecShape } from './vmi-shape.ts';

/** Labels that only KubeVirt's own programs change on a VMI, as in its webhook for updates. */
const systemLabels = [
  'created-by',
  'migrationJobUID',
  'nodeName',
  'migrationTargetNodeName',
  'schedulable',
  'install-strategy',
].map((name) => `kubevirt.io/${name}`);

export const vmiAdmission: Admission = {
  complete: ({ spec }) => addDevices(spec),
  fill(vmi, context) {
    const { old, privileged } = context;
    // As upstream: what a user writes into the status of a VMI is dropped without a word.
    if (!privileged) restoreStatus(vmi, old);
    const spec = vmi.spec;
    if (!isRecord(spec) || !isRecord(spec.domain) || vmiSpecShape(spec, 'spec').length > 0) return;
    fillVmiSpec(spec, old?.spec, context);
    if (old) return;
    nameQuoteSocket(vmi, context.cluster);
    fillStatus(vmi, spec);
    accept(vmi, context);
  },
  validate(vmi, context) {
    const utility = context.old ? [] : checkUtilityVolumes(vmi.spec, 'spec');
    // What was wrong in the stored object is let through: changes are looked at in any case.
    const spec = context.hasNewSpec ? validateSpec(vmi.spec, 'spec', context.cluster) : [];
    return [...spec, ...utility, ...validateChange(vmi, context)];
  },
};

function validateChange(vmi: ApiObject, { old, privileged }: AdmissionContext): FieldError[] {
  if (privileged) return old ? validateHotplug(vmi, old) : [];
  return old ? validateUserChange(vmi, old) : changedSystemLabels(vmi, {});
}

/** The schema demands them; upstream's webhooks write the whole spec anew, so that nobody ever had to. */
export function addDevices(spec: unknown): void {
  const domain = at(spec, 'domain');
  if (isRecord(domain)) domain.devices ??= {};
}

/** Form and rules of a VMI's spec at a path; also for the template of a VM, to which an instance type adds what is not there. */
export function validateSpec(
  spec: unknown,
  field: string,
  cluster: ClusterDefaults,
  { isWhole = true } = {},
): FieldError[] {
  if (spec === undefined || spec === null) return [requiredField(field)];
  const errors = vmiSpecShape(spec, field);
  return errors.length > 0 || !isRecord(spec) ? errors : checkVmiSpec({ spec, field, cluster, isWhole });
}

function restoreStatus(vmi: ApiObject, old: ApiObject | undefined): void {
  if (old?.status === undefined) delete vmi.status;
  else vmi.status = copyJson(old.status);
}

/** Members that later stages read: first figures of memory and CPU. */
function fillStatus(vmi: ApiObject, spec: JsonObject): void {
  const status = ensureObject(vmi, 'status');
  const guest = at(spec, 'domain', 'memory', 'guest');
  if (guest !== undefined) status.memory ??= { guestAtBoot: guest, guestCurrent: guest, guestRequested: guest };
  const figure = (name: string) => numberAt(spec, 'domain', 'cpu', name) || 1;
  status.currentCPUTopology ??= { cores: figure('cores'), sockets: figure('sockets'), threads: figure('threads') };
}

/**
 * First phase, finalizer and user of the launcher, as KubeVirt's webhook for new VMIs sets them: no client ever sees a VMI
 * without them. Without a deployed KubeVirt no program takes the VMI in; the controller sets all this once it comes. A program
 * that brings a phase has decided by itself.
 */
function accept(vmi: ApiObject, { now, cluster }: AdmissionContext): void {
  const status = ensureObject(vmi, 'status');
  if (cluster.runtimeUser === undefined || status.phase) return;
  takeIn(vmi, finalizers.vmi);
  status.phase = 'Pending';
  status.phaseTransitionTimestamps = [{ phase: 'Pending', phaseTransitionTimestamp: rfc3339(now) }];
  status.runtimeUser ??= cluster.runtimeUser;
}

/** Before it runs KubeVirt's programs may still fill in what a VMI lacks. */
function validateHotplug(vmi: ApiObject, old: ApiObject): FieldError[] {
  const before = old as unknown as VirtualMachineInstance;
  const after = vmi as unknown as VirtualMachineInstance;
  if (before.status?.phase !== 'Running' || sameJson(vmi.spec, old.spec)) return [];
  // Its rules read fields whose form must be right.
  if ([vmi.spec, old.spec].some((spec) => vmiSpecShape(spec, 'spec').length > 0)) return [];
  return hotplugProblems({ old: before.spec, wanted: after.spec, status: before.status });
}

function validateUserChange(vmi: ApiObject, old: ApiObject): FieldError[] {
  if (!sameJson(vmi.spec, old.spec)) {
    const text = 'Forbidden: the spec of a VirtualMachineInstance cannot be changed; delete it and create it again';
    return [{ field: 'spec', reason: 'FieldValueInvalid', message: text }];
  }
  return changedSystemLabels(vmi, old.metadata.labels ?? {});
}

/** A new object has none of them either: they would name a node, or a migration, that was never chosen. */
function changedSystemLabels(vmi: ApiObject, before: Readonly<Record<string, string>>): FieldError[] {
  return systemLabels
    .filter((label) => vmi.metadata.labels?.[label] !== before[label])
    .map((label) =>
      invalidField(`metadata.labels[${label}]`, vmi.metadata.labels?.[label] ?? null, 'only KubeVirt sets it'),
    );
}

/** For objects that carry a VMI spec below `spec.template`. */
export function fillTemplate(spec: JsonObject, old: unknown, context: AdmissionContext): void {
  const domain = at(spec, 'template', 'spec', 'domain');
  if (!isRecord(domain)) return;
  const known = (name: string) => at(old, 'template', 'spec', 'domain', 'firmware', name);
  const firmware = ensureObject(domain, 'firmware');
  // Stable over restarts: the guest sees the same machine each time it is started.
  firmware.uuid ??= known('uuid') ?? context.randomUuid();
  firmware.serial ??= known('serial') ?? context.randomUuid();
}
