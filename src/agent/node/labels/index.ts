/**
 * Owns: labels of this node that follow from libvirt's capability files, the kernel and the cluster's configuration, as
 * pkg/virt-handler/node-labeller has them: files → facts → labels → one patch of the difference, and why each label is there
 * or not.
 * Must not know: VMIs, launchers, the heartbeat's marks; how a node is watched or patched (its deps).
 */

export { CapabilityFiles, type CapabilityFilesOptions } from './capability-files.ts';
export { makeNodeLabels, type NodeLabelsParts } from './make-node-labels.ts';
export { type LabelPatch, NodeLabels } from './node-labels.ts';
