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
    migration: ['pod'],
    owned: [],
    pod: [],
    pool: ['owned'],
    'replica-set': ['owned'],
    scheduler: ['pod'],
    serve: [],
    vm: ['instancetypes'],
    vmi: ['data-volumes', 'pod'],
    'workload-update': ['pod'],
  },
  /** Pauses and limits of all controllers. */
  shared: ['reconciling.ts'],
});
