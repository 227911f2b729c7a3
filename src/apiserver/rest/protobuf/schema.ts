/**
 * Messages that kubectl's typed commands send (`kubectl create configmap`, `auth can-i`, `drain`…): since 1.32 it speaks
 * protobuf there. Field numbers are those of Kubernetes' generated.proto files.
 */
export type FieldType =
  | 'string'
  | 'bytes'
  /** A value that is left out when it is 0 or false, as in Kubernetes' JSON. */
  | 'int'
  | 'bool'
  /** A pointer: 0 and false are kept. */
  | 'int?'
  | 'bool?'
  | 'time'
  | 'microtime'
  | 'int-or-string'
  /** Said by the server alone; not looked at. */
  | 'ignored'
  | { readonly map: 'string' | 'bytes' }
  | { readonly message: MessageSchema };

export interface Field {
  readonly name: string;
  readonly type: FieldType;
  readonly repeated: boolean;
}

export type MessageSchema = ReadonlyMap<number, Field>;

function message(fields: Readonly<Record<number, readonly [string, FieldType]>>): MessageSchema {
  return new Map(
    Object.entries(fields).map(([number, [name, type]]) => {
      const repeated = name.endsWith('[]');
      return [Number(number), { name: repeated ? name.slice(0, -2) : name, type, repeated }];
    }),
  );
}

const strings = (...names: readonly string[]): MessageSchema =>
  message(Object.fromEntries(names.map((name, index) => [index + 1, [name, 'string'] as const])));

export const typeMeta = strings('apiVersion', 'kind');

const ownerReference = message({
  1: ['kind', 'string'],
  3: ['name', 'string'],
  4: ['uid', 'string'],
  5: ['apiVersion', 'string'],
  6: ['controller', 'bool?'],
  7: ['blockOwnerDeletion', 'bool?'],
});

const metadata = message({
  1: ['name', 'string'],
  2: ['generateName', 'string'],
  3: ['namespace', 'string'],
  4: ['selfLink', 'string'],
  5: ['uid', 'string'],
  6: ['resourceVersion', 'string'],
  7: ['generation', 'int'],
  8: ['creationTimestamp', 'time'],
  9: ['deletionTimestamp', 'time'],
  10: ['deletionGracePeriodSeconds', 'int?'],
  11: ['labels', { map: 'string' }],
  12: ['annotations', { map: 'string' }],
  13: ['ownerReferences[]', { message: ownerReference }],
  14: ['finalizers[]', 'string'],
});

const head = ['metadata', { message: metadata }] as const;

const objectReference = strings('kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath');

const servicePort = message({
  1: ['name', 'string'],
  2: ['protocol', 'string'],
  3: ['port', 'int'],
  4: ['targetPort', 'int-or-string'],
  5: ['nodePort', 'int'],
  6: ['appProtocol', 'string'],
});

const serviceSpec = message({
  1: ['ports[]', { message: servicePort }],
  2: ['selector', { map: 'string' }],
  3: ['clusterIP', 'string'],
  4: ['type', 'string'],
  5: ['externalIPs[]', 'string'],
  7: ['sessionAffinity', 'string'],
  8: ['loadBalancerIP', 'string'],
  9: ['loadBalancerSourceRanges[]', 'string'],
  10: ['externalName', 'string'],
  11: ['externalTrafficPolicy', 'string'],
  12: ['healthCheckNodePort', 'int'],
  13: ['publishNotReadyAddresses', 'bool'],
  17: ['ipFamilyPolicy', 'string'],
  18: ['clusterIPs[]', 'string'],
  19: ['ipFamilies[]', 'string'],
  20: ['allocateLoadBalancerNodePorts', 'bool?'],
  21: ['loadBalancerClass', 'string'],
  22: ['internalTrafficPolicy', 'string'],
  23: ['trafficDistribution', 'string'],
});

const event = message({
  1: head,
  2: ['involvedObject', { message: objectReference }],
  3: ['reason', 'string'],
  4: ['message', 'string'],
  5: ['source', { message: strings('component', 'host') }],
  6: ['firstTimestamp', 'time'],
  7: ['lastTimestamp', 'time'],
  8: ['count', 'int'],
  9: ['type', 'string'],
  10: ['eventTime', 'microtime'],
  11: ['series', { message: message({ 1: ['count', 'int'], 2: ['lastObservedTime', 'microtime'] }) }],
  12: ['action', 'string'],
  13: ['related', { message: objectReference }],
  14: ['reportingComponent', 'string'],
  15: ['reportingInstance', 'string'],
});

const leaseSpec = message({
  1: ['holderIdentity', 'string'],
  2: ['leaseDurationSeconds', 'int?'],
  3: ['acquireTime', 'microtime'],
  4: ['renewTime', 'microtime'],
  5: ['leaseTransitions', 'int?'],
  6: ['strategy', 'string'],
  7: ['preferredHolder', 'string'],
});

const deleteOptions = message({
  1: ['gracePeriodSeconds', 'int?'],
  2: ['preconditions', { message: strings('uid', 'resourceVersion') }],
  3: ['orphanDependents', 'bool?'],
  4: ['propagationPolicy', 'string'],
  5: ['dryRun[]', 'string'],
});

const resourceAttributes = strings('namespace', 'verb', 'group', 'version', 'resource', 'subresource', 'name');
const accessSpec = message({
  1: ['resourceAttributes', { message: resourceAttributes }],
  2: ['nonResourceAttributes', { message: strings('path', 'verb') }],
  3: ['user', 'string'],
  4: ['groups[]', 'string'],
  6: ['uid', 'string'],
});

const withSpec = (spec: MessageSchema): MessageSchema =>
  message({ 1: head, 2: ['spec', { message: spec }], 3: ['status', 'ignored'] });

const tokenSpec = message({ 1: ['token', 'string'], 2: ['audiences[]', 'string'] });

const serviceAccount = message({
  1: head,
  2: ['secrets[]', { message: objectReference }],
  3: ['imagePullSecrets[]', { message: strings('name') }],
  4: ['automountServiceAccountToken', 'bool?'],
});

/** By `apiVersion/kind`. */
export const messages: Readonly<Record<string, MessageSchema>> = {
  'v1/Namespace': withSpec(message({ 1: ['finalizers[]', 'string'] })),
  'v1/ConfigMap': message({
    1: head,
    2: ['data', { map: 'string' }],
    3: ['binaryData', { map: 'bytes' }],
    4: ['immutable', 'bool?'],
  }),
  'v1/Secret': message({
    1: head,
    2: ['data', { map: 'bytes' }],
    3: ['type', 'string'],
    4: ['stringData', { map: 'string' }],
    5: ['immutable', 'bool?'],
  }),
  'v1/ServiceAccount': serviceAccount,
  'v1/Service': message({
    1: head,
    2: ['spec', { message: serviceSpec }],
    3: ['status', 'ignored'],
  }),
  'v1/Event': event,
  'v1/DeleteOptions': deleteOptions,
  'meta.k8s.io/v1/DeleteOptions': deleteOptions,
  'coordination.k8s.io/v1/Lease': message({ 1: head, 2: ['spec', { message: leaseSpec }] }),
  'policy/v1/Eviction': message({ 1: head, 2: ['deleteOptions', { message: deleteOptions }] }),
  'authorization.k8s.io/v1/SelfSubjectAccessReview': withSpec(accessSpec),
  'authorization.k8s.io/v1/SubjectAccessReview': withSpec(accessSpec),
  'authorization.k8s.io/v1/LocalSubjectAccessReview': withSpec(accessSpec),
  'authorization.k8s.io/v1/SelfSubjectRulesReview': withSpec(strings('namespace')),
  'authentication.k8s.io/v1/SelfSubjectReview': message({ 1: head, 2: ['status', 'ignored'] }),
  'authentication.k8s.io/v1/TokenReview': withSpec(tokenSpec),
};
