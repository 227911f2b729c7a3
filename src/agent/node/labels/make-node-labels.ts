import { resources } from '../../../api/index.ts';
import type { Clock, Component, Logger } from '../../../base/index.ts';
import type { EventRecorder, KubeClient } from '../../../kube/index.ts';
import type { ClusterSettings, Node, OwnNode } from '../ports.ts';
import { CapabilityFiles, type CapabilityFilesOptions } from './capability-files.ts';
import { NodeLabels } from './node-labels.ts';

export interface NodeLabelsParts {
  /** Also the source of problems with libvirt's files. */
  readonly files: CapabilityFiles;
  readonly labels: NodeLabels;
  /** In the order in which they start; the node and the settings are there before, but need not have synced. */
  readonly components: readonly Component[];
}

interface KubeParts {
  readonly client: Pick<KubeClient, 'patch'>;
  readonly recorder: Pick<EventRecorder, 'record'>;
  readonly node: OwnNode;
  readonly settings: Pick<ClusterSettings, 'select' | 'isKnown'>;
  readonly clock: Clock;
  readonly log: Logger;
}

const patchTimeoutMs = 10_000;

/** The real parts; nothing is started and nothing is asked yet. */
export function makeNodeLabels(
  { nodeName, ...options }: CapabilityFilesOptions & { readonly nodeName: string },
  { client, recorder, node, settings, clock, log }: KubeParts,
): NodeLabelsParts {
  const files = new CapabilityFiles(options, { log, clock });
  const labels = new NodeLabels(
    { nodeName },
    {
      node,
      files,
      settings,
      patchNode: (name, patch, signal) =>
        client.patch<Node>(resources.nodes, { name }, patch, 'merge', { signal, timeoutMs: patchTimeoutMs }),
      recordEvent: (subject, { type, reason, message }) => recorder.record(subject, type, reason, message),
      clock,
      log,
    },
  );
  return { files, labels, components: [files, labels] };
}
