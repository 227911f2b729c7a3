import {
  claimAdmission,
  configMapAdmission,
  namespaceAdmission,
  podAdmission,
  podGraceSeconds,
  secretAdmission,
  serviceAdmission,
  storageClassAdmission,
  volumeAdmission,
} from '../admission/index.ts';
import type { ApiType } from '../api-type.ts';
import {
  claimStrategic,
  namespaceStrategic,
  nodeStrategic,
  plainStrategic,
  podStrategic,
  serviceAccountStrategic,
  serviceStrategic,
} from '../patch/index.ts';
import {
  claimColumns,
  configMapColumns,
  controllerRevisionColumns,
  crdColumns,
  endpointSliceColumns,
  endpointsColumns,
  eventColumns,
  leaseColumns,
  namespaceColumns,
  nodeColumns,
  podColumns,
  secretColumns,
  serviceAccountColumns,
  serviceColumns,
  storageClassColumns,
  volumeColumns,
} from '../print/index.ts';

type Given = Partial<ApiType> & Pick<ApiType, 'resource' | 'kind' | 'columns'>;

function builtIn(given: Given): ApiType {
  return {
    group: '',
    version: 'v1',
    namespaced: true,
    singular: given.kind.toLowerCase(),
    shortNames: [],
    categories: [],
    custom: false,
    statusSubresource: false,
    statusOnCreate: 'kept',
    subresources: [],
    readOnly: false,
    unconditionalUpdate: true,
    fields: [],
    nameRule: 'subdomain',
    gracePeriodSeconds: undefined,
    strategic: plainStrategic,
    admission: {},
    ...given,
  };
}

const podFields = [
  'spec.nodeName',
  'spec.restartPolicy',
  'spec.schedulerName',
  'spec.serviceAccountName',
  'spec.hostNetwork',
  'status.phase',
  'status.podIP',
  'status.nominatedNodeName',
];

const eventFields = [
  ...['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'].map(
    (field) => `involvedObject.${field}`,
  ),
  'reason',
  'reportingComponent',
  'source',
  'type',
];

export const pods = builtIn({
  resource: 'pods',
  kind: 'Pod',
  shortNames: ['po'],
  categories: ['all'],
  statusSubresource: true,
  statusOnCreate: 'dropped',
  subresources: [
    { name: 'binding', kind: 'Binding', verbs: ['create'] },
    { name: 'eviction', group: 'policy', version: 'v1', kind: 'Eviction', verbs: ['create'] },
    { name: 'log', kind: 'Pod', verbs: ['get'] },
    { name: 'portforward', kind: 'PodPortForwardOptions', verbs: ['create', 'get'] },
  ],
  fields: podFields,
  gracePeriodSeconds: podGraceSeconds,
  strategic: podStrategic,
  columns: podColumns,
  admission: podAdmission,
});

export const namespaces = builtIn({
  resource: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
  shortNames: ['ns'],
  statusSubresource: true,
  statusOnCreate: 'dropped',
  fields: ['status.phase'],
  nameRule: 'label',
  strategic: namespaceStrategic,
  columns: namespaceColumns,
  admission: namespaceAdmission,
});

export const events = builtIn({
  resource: 'events',
  kind: 'Event',
  shortNames: ['ev'],
  fields: eventFields,
  columns: eventColumns,
});

export const customResourceDefinitions = builtIn({
  group: 'apiextensions.k8s.io',
  resource: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  readOnly: true,
  columns: crdColumns,
});

export const coreTypes: readonly ApiType[] = [
  namespaces,
  builtIn({
    resource: 'nodes',
    kind: 'Node',
    namespaced: false,
    shortNames: ['no'],
    statusSubresource: true,
    fields: ['spec.unschedulable'],
    strategic: nodeStrategic,
    columns: nodeColumns,
  }),
  pods,
  events,
  builtIn({
    resource: 'configmaps',
    kind: 'ConfigMap',
    shortNames: ['cm'],
    columns: configMapColumns,
    admission: configMapAdmission,
  }),
  builtIn({
    resource: 'secrets',
    kind: 'Secret',
    fields: ['type'],
    columns: secretColumns,
    admission: secretAdmission,
  }),
  builtIn({
    resource: 'serviceaccounts',
    kind: 'ServiceAccount',
    shortNames: ['sa'],
    strategic: serviceAccountStrategic,
    columns: serviceAccountColumns,
  }),
  builtIn({
    resource: 'services',
    kind: 'Service',
    shortNames: ['svc'],
    categories: ['all'],
    statusSubresource: true,
    statusOnCreate: 'dropped',
    nameRule: 'label',
    strategic: serviceStrategic,
    columns: serviceColumns,
    admission: serviceAdmission,
  }),
  builtIn({ resource: 'endpoints', kind: 'Endpoints', shortNames: ['ep'], columns: endpointsColumns }),
  builtIn({
    group: 'discovery.k8s.io',
    resource: 'endpointslices',
    kind: 'EndpointSlice',
    columns: endpointSliceColumns,
  }),
  builtIn({
    resource: 'persistentvolumeclaims',
    kind: 'PersistentVolumeClaim',
    shortNames: ['pvc'],
    statusSubresource: true,
    statusOnCreate: 'dropped',
    strategic: claimStrategic,
    columns: claimColumns,
    admission: claimAdmission,
  }),
  builtIn({
    resource: 'persistentvolumes',
    kind: 'PersistentVolume',
    namespaced: false,
    shortNames: ['pv'],
    statusSubresource: true,
    statusOnCreate: 'dropped',
    columns: volumeColumns,
    admission: volumeAdmission,
  }),
  builtIn({
    group: 'storage.k8s.io',
    resource: 'storageclasses',
    kind: 'StorageClass',
    namespaced: false,
    shortNames: ['sc'],
    columns: storageClassColumns,
    admission: storageClassAdmission,
  }),
  builtIn({
    group: 'coordination.k8s.io',
    resource: 'leases',
    kind: 'Lease',
    unconditionalUpdate: false,
    columns: leaseColumns,
  }),
  builtIn({
    group: 'apps',
    resource: 'controllerrevisions',
    kind: 'ControllerRevision',
    columns: controllerRevisionColumns,
  }),
  customResourceDefinitions,
];
