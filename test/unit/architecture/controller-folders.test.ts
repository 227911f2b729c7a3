import { checkFolderRules } from '../../fixtures/folder-rules.ts';

checkFolderRules({
  root: 'src/controller',
  mayImport: {
    clone: ['owned', 'snapshot-source'],
    'data-volumes': [],
    'disruption-budget': [],
    evacuation: ['owned', 'pod'],
    node: ['pod'],
    explain: [],
    instancetypes: [],
    'kept-state': ['owned'],
    metrics: [],
    migration: ['kept-state', 'pod', 'quota'],
    owned: [],
    pod: [],
    pool: ['owned'],
    quota: [],
    'replica-set': ['owned'],
    restore: ['data-volumes', 'owned', 'snapshot-source'],
    scheduler: ['pod'],
    serve: [],
    snapshot: ['instancetypes', 'owned', 'snapshot-source', 'vm'],
    'snapshot-content': ['owned', 'snapshot-source'],
    'snapshot-source': ['data-volumes'],
    tsc: [],
    vm: ['data-volumes', 'instancetypes'],
    vmi: ['data-volumes', 'kept-state', 'pod', 'quota'],
    'workload-update': ['pod'],
  },
  /** Pauses and limits of all controllers; what is taken over from VM to VMI to pod. */
  shared: ['reconciling.ts', 'synced-metadata.ts'],
});
