import type { ApiType } from '../api-type.ts';
import type { ApiObject } from '../object.ts';
import { cdiTypes } from './cdi-types.ts';
import { kubevirtTypes } from './kubevirt-types.ts';
import { snapshotTypes } from './snapshot-types.ts';

/** The definitions that `kubectl get crd` shows: the built-in types of KubeVirt, CDI and snapshots, which cannot be changed. */
export function builtInDefinitions(): readonly ApiObject[] {
  return [...kubevirtTypes, ...cdiTypes, ...snapshotTypes].map(definitionOf);
}

const scalePaths = {
  specReplicasPath: '.spec.replicas',
  statusReplicasPath: '.status.replicas',
  labelSelectorPath: '.status.labelSelector',
};

function subresourcesOf({ statusSubresource, subresources }: ApiType): object {
  const scales = subresources.some(({ name }) => name === 'scale');
  if (!statusSubresource && !scales) return {};
  return { subresources: { ...(statusSubresource && { status: {} }), ...(scales && { scale: scalePaths }) } };
}

function definitionOf(type: ApiType): ApiObject {
  const names = {
    plural: type.resource,
    singular: type.singular,
    kind: type.kind,
    listKind: `${type.kind}List`,
    ...(type.shortNames.length > 0 ? { shortNames: type.shortNames } : {}),
    ...(type.categories.length > 0 ? { categories: type.categories } : {}),
  };
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  const condition = (name: string, reason: string) => ({ type: name, status: 'True', reason, message: 'built in' });
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${type.resource}.${type.group}` },
    spec: {
      group: type.group,
      names,
      scope: type.namespaced ? 'Namespaced' : 'Cluster',
      conversion: { strategy: 'None' },
      versions: [
        {
          name: type.version,
          served: true,
          storage: true,
          schema,
          ...subresourcesOf(type),
        },
      ],
    },
    status: {
      acceptedNames: names,
      storedVersions: [type.version],
      conditions: [condition('NamesAccepted', 'NoConflicts'), condition('Established', 'InitialNamesAccepted')],
    },
  };
}
