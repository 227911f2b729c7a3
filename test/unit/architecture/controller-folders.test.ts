import { checkFolderRules } from '../../fixtures/folder-rules.ts';

checkFolderRules({
  root: 'src/controller',
  mayImport: {
    'data-volumes': [],
    'disruption-budget': [],
    evacuation: ['owned', 'pod'],
    node: ['pod'],
    explain: [],
    instancetypes: [],
    metrics: [],
    migration: ['pod', 'quota'],
    owned: [],
    pod: [],
    pool: ['owned'],
    quota: [],
    'replica-set': ['owned'],
    scheduler: ['pod'],
    serve: [],
    tsc: [],
    vm: ['data-volumes', 'instancetypes'],
    vmi: ['data-volumes', 'pod', 'quota'],
    'workload-update': ['pod'],
  },
  /** Pauses and limits of all controllers; what is taken over from VM to VMI to pod. */
  shared: ['reconciling.ts', 'synced-metadata.ts'],
});
