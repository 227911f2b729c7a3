import { checkFolderRules } from '../../fixtures/folder-rules.ts';

checkFolderRules({
  root: 'src/controller',
  mayImport: {
    'data-volumes': [],
    evacuation: ['pod'],
    node: ['pod'],
    explain: [],
    migration: ['pod'],
    pod: [],
    scheduler: ['pod'],
    vm: [],
    vmi: ['data-volumes', 'pod'],
    'workload-update': ['pod'],
  },
  /** Pauses and limits of all controllers. */
  shared: ['reconciling.ts'],
});
