import type { AccessRule } from '../../apiserver/index.ts';

/**
 * What virt-handler may do: the ClusterRole of daemonset/base/rbac.yaml, which is upstream's
 * (pkg/virt-operator/resource/generate/rbac/handler.go). A test compares the two.
 * So the standalone node shows at every start that the agent needs no more than a stock cluster grants it.
 */
export const handlerRules: readonly AccessRule[] = [
  { apiGroups: ['kubevirt.io'], resources: ['virtualmachineinstances'], verbs: ['update', 'list', 'watch'] },
  { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch', 'patch'] },
  { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
  { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: ['kubevirt.io'], resources: ['kubevirts'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: ['migrations.kubevirt.io'], resources: ['migrationpolicies'], verbs: ['get', 'list', 'watch'] },
  {
    apiGroups: ['backup.kubevirt.io'],
    resources: ['virtualmachinebackuptrackers', 'virtualmachinebackuptrackers/status'],
    verbs: ['list', 'watch', 'patch'],
  },
  { apiGroups: ['plugin.kubevirt.io'], resources: ['plugins'], verbs: ['get', 'list', 'watch'] },
];
