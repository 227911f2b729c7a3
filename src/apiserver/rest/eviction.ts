import { annotations, isMigratable, labels, type VirtualMachineInstance } from '../../api/index.ts';
import { ApiError, deniedMessage } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { addressOf, clusterDefaults, storedObjects, type Target } from '../objects/index.ts';
import { findType } from '../types/index.ts';
import type { ApiContext } from './api-context.ts';
import { isDryRun, type ResourcePath } from './request.ts';
import { virtApi } from './virt-api.ts';

/** What becomes of the request to evict a pod. */
type Answer =
  | { readonly kind: 'allow' }
  | { readonly kind: 'deny'; readonly message: string }
  /** The VMI is to leave the node; the request is refused until it has. */
  | { readonly kind: 'mark'; readonly vmi: ApiObject; readonly node: string };

const allow: Answer = { kind: 'allow' };
const deny = (message: string): Answer => ({ kind: 'deny', message });
const webhook = 'virt-launcher-eviction-interceptor.kubevirt.io';

/**
 * Keeps the pods of guests from being evicted that can move instead (upstream: pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go):
 * 429, which `kubectl drain` takes as a reason to ask again. Throws ApiError.
 */
export async function reviewEviction(
  context: ApiContext,
  path: ResourcePath,
  target: Target,
  { eviction, query }: { readonly eviction: unknown; readonly query: Readonly<Record<string, string>> },
): Promise<void> {
  const pod = context.store.get(addressOf(path.type, target))?.object;
  const answer = pod ? answerFor(context, path, pod) : allow;
  switch (answer.kind) {
    case 'allow':
      return;
    case 'deny':
      throw refusal(answer.message);
    case 'mark': {
      const dryRun = isDryRun(query.dryRun) || isDryRun(at(eviction, 'deleteOptions', 'dryRun'));
      const isDescheduler = stringAt(eviction, 'metadata', 'annotations', 'requested-by') === 'sigs.k8s.io/descheduler';
      await mark(context, answer, { dryRun, isDescheduler });
      throw refusal(triggered(answer.vmi));
    }
    default:
      answer satisfies never;
  }
}

function refusal(message: string): ApiError {
  return new ApiError('TOO_MANY_REQUESTS', deniedMessage({ webhook, message }));
}

/** The descheduler reads it. */
function triggered({ metadata: { namespace, name } }: ApiObject): string {
  return `Eviction triggered evacuation of VMI "${namespace}/${name}"`;
}

function answerFor(context: ApiContext, path: ResourcePath, pod: ApiObject): Answer {
  const owners = pod.metadata.ownerReferences ?? [];
  const kind = pod.metadata.labels?.[labels.app];
  if (kind === 'hotplug-disk' && owners.length === 1) {
    const { namespace = '' } = pod.metadata;
    const launcher = context.store.get(addressOf(path.type, { namespace, name: owners[0]?.name ?? '' }))?.object;
    return launcher && isLauncher(launcher) ? answerForAttachment(context, pod, launcher) : allow;
  }
  return isLauncher(pod) ? answerForLauncher(context, pod) : allow;
}

function isLauncher(pod: ApiObject): boolean {
  const phase = stringAt(pod, 'status', 'phase');
  return pod.metadata.labels?.[labels.app] === 'virt-launcher' && phase !== 'Succeeded' && phase !== 'Failed';
}

function answerForAttachment(context: ApiContext, pod: ApiObject, launcher: ApiObject): Answer {
  const vmi = vmiOf(context, launcher);
  if (!vmi) return allow;
  const { namespace, name } = vmi.metadata;
  return deny(
    `cannot evict hotplug pod: ${pod.metadata.name} associated with running vmi: ${name} in namespace ${namespace}`,
  );
}

function answerForLauncher(context: ApiContext, pod: ApiObject): Answer {
  const name = pod.metadata.annotations?.[annotations.domain];
  if (name === undefined) return allow;
  const vmi = vmiOf(context, pod);
  if (!vmi) return deny(`kubevirt failed getting the vmi: virtualmachineinstances.kubevirt.io "${name}" not found`);
  const strategy = stringAt(vmi, 'spec', 'evictionStrategy') ?? clusterDefaults(context).evictionStrategy;
  const canMove = isMigratable(vmi as unknown as VirtualMachineInstance);
  if (strategy === 'LiveMigrate' && !canMove) {
    return deny(`VMI ${name} is configured with an eviction strategy but is not live-migratable`);
  }
  const isToMove =
    strategy === 'LiveMigrate' || strategy === 'External' || (strategy === 'LiveMigrateIfPossible' && canMove);
  return isToMove ? answerForMove(vmi, stringAt(pod, 'spec', 'nodeName') ?? '') : allow;
}

function answerForMove(vmi: ApiObject, node: string): Answer {
  if (stringAt(vmi, 'status', 'evacuationNodeName')) return deny(`Evacuation in progress: ${triggered(vmi)}`);
  if (stringAt(vmi, 'status', 'nodeName') !== node) return deny('Eviction request for target Pod');
  return { kind: 'mark', vmi, node };
}

function vmiOf(context: ApiContext, { metadata }: ApiObject): ApiObject | undefined {
  const name = metadata.annotations?.[annotations.domain];
  return name === undefined ? undefined : storedObjects(context).vmi(metadata.namespace ?? '', name);
}

async function mark(
  { writer }: ApiContext,
  { vmi, node }: Extract<Answer, { kind: 'mark' }>,
  { dryRun, isDescheduler }: { readonly dryRun: boolean; readonly isDescheduler: boolean },
): Promise<void> {
  const type = findType('kubevirt.io', 'v1', 'virtualmachineinstances');
  if (!type) return;
  const { namespace = '', name } = vmi.metadata;
  const change = ({ metadata, status, ...rest }: ApiObject) => ({
    ...rest,
    metadata: isDescheduler
      ? { ...metadata, annotations: { ...metadata.annotations, [annotations.evictionSource]: 'descheduler' } }
      : metadata,
    status: { ...(status as object | undefined), evacuationNodeName: node },
  });
  const update = { namespace, name, subresource: undefined, change, isReplace: false };
  await writer.update(type, update, { user: virtApi, dryRun });
}
