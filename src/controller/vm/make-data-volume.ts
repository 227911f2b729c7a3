import { type DataVolume, resources, type VirtualMachine } from '../../api/index.ts';
import { errorMessage, isRecord, memberAt } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import type { ObjectEvent } from '../../reconcile/index.ts';
import { authorizeClone, CloneError, sourceOf, withSource } from './clone-source.ts';
import { nameOf, templatesOf } from './data-volume-facts.ts';
import { ownerReference } from './make-vmi.ts';

/** Lets the importer take a claim of this name over that is there already. */
const adoptionAnnotation = 'cdi.kubevirt.io/allowClaimAdoption';

export interface Made {
  readonly events: readonly ObjectEvent[];
  /** Why the rest was not made, in words. */
  readonly problem?: string;
}

/** Reasons of events in upstream's spelling. Makes those of the VM's templates that are named. Rejects when the signal is aborted. */
export async function makeDataVolumes(
  vm: VirtualMachine,
  names: readonly string[],
  client: Pick<KubeClient, 'create' | 'get'>,
  signal: AbortSignal,
): Promise<Made> {
  const events: ObjectEvent[] = [];
  for (const template of templatesOf(vm).filter((each) => names.includes(nameOf(each)))) {
    const name = nameOf(template);
    try {
      const { object, warning } = await dataVolumeOf(vm, template, client, signal);
      if (warning) events.push({ type: 'Warning', reason: 'SourcePVCNotAvailabe', message: warning });
      await client.create(resources.dataVolumes, object, { signal });
      events.push({ type: 'Normal', reason: 'SuccessfulDataVolumeCreate', message: `Created DataVolume ${name}` });
    } catch (error) {
      if (signal.aborted) throw error;
      // Only the cache did not show it yet.
      if (isKubeError(error, 'ALREADY_EXISTS')) continue;
      const isForbidden = error instanceof CloneError && error.code === 'UNAUTHORIZED';
      const message = isForbidden
        ? `Not authorized to create DataVolume ${name}: ${error.message}`
        : `Error creating DataVolume ${name}: ${errorMessage(error)}`;
      const reason = isForbidden ? 'UnauthorizedDataVolumeCreate' : 'FailedDataVolumeCreate';
      return { events: [...events, { type: 'Warning', reason, message }], problem: message };
    }
  }
  return { events };
}

/** What the VM's template stands for now (upstream: CreateDataVolumeManifest). */
async function dataVolumeOf(
  vm: VirtualMachine,
  template: unknown,
  client: Pick<KubeClient, 'create' | 'get'>,
  signal: AbortSignal,
): Promise<{ readonly object: DataVolume; readonly warning: string | undefined }> {
  const { name: vmName, namespace = '', uid = '' } = vm.metadata;
  const metadata = memberAt(template, 'metadata');
  const given = isRecord(metadata) ? metadata : {};
  const said = memberAt(template, 'spec');
  const spec = await withSource(isRecord(said) ? said : {}, namespace, client, signal);
  const source = sourceOf(spec, namespace);
  if (source) await authorizeClone(source, vm, client, signal);
  const { priorityClassName } = vm.spec.template.spec;
  const object: DataVolume = {
    apiVersion: `${resources.dataVolumes.group}/${resources.dataVolumes.version}`,
    kind: resources.dataVolumes.kind,
    metadata: {
      ...given,
      name: nameOf(template),
      namespace,
      labels: { ...wordsOf(given.labels), 'kubevirt.io/created-by': uid },
      annotations: { ...wordsOf(given.annotations), [adoptionAnnotation]: 'true' },
      ownerReferences: [ownerReference(vmName, uid)],
    },
    spec: { ...(typeof priorityClassName === 'string' && priorityClassName !== '' && { priorityClassName }), ...spec },
  };
  if (source?.member !== 'pvc') return { object, warning: undefined };
  const claim = await getIfThere(client, resources.persistentVolumeClaims, source, { signal });
  const whole = `${source.namespace}/${source.name}`;
  const warning = `Source PVC ${whole} not available: Target PVC ${nameOf(template)} will remain unpopulated until source is created`;
  return { object, warning: claim ? undefined : warning };
}

function wordsOf(value: unknown): Record<string, string> {
  return isRecord(value) ? (value as Record<string, string>) : {};
}
