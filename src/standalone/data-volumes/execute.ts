import { type PersistentVolumeClaim, resources } from '../../api/index.ts';
import { isKubeError, writeIfThere } from '../../kube/index.ts';
import type { Executors, Outcome, StepContext } from '../../reconcile/index.ts';
import type { FillStepArgs } from './decide.ts';
import type { Filler } from './filler.ts';
import type { FillFacts } from './observe.ts';
import { annotations, claimFor, ownerOf } from './wish.ts';

export interface FillContext extends StepContext {
  readonly observation: FillFacts;
  readonly filler: Filler;
}

const done: Outcome = { kind: 'done' };

export const executors: Executors<FillStepArgs, FillContext> = {
  forget: async (_step, { observation, filler }) => {
    await filler.fillings.forget(observation.key);
    return done;
  },
  adoptClaim: async (_step, { observation: { dataVolume, claim }, filler, signal }) => {
    if (!dataVolume || !claim) return done;
    const { uid, resourceVersion, ownerReferences = [] } = claim.metadata;
    const owners = [...ownerReferences, ownerOf(dataVolume)];
    const body = { metadata: { uid, resourceVersion, ownerReferences: owners } };
    const type = resources.persistentVolumeClaims;
    await writeIfThere(filler.client.patch(type, claim.metadata, body, 'merge', { signal }));
    return done;
  },
  createClaim: async ({ sizeBytes }, { observation: { dataVolume, wish }, filler, signal }) => {
    if (!dataVolume || !wish) return done;
    try {
      await filler.client.create(resources.persistentVolumeClaims, claimFor(dataVolume, wish, sizeBytes), { signal });
    } catch (error) {
      if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    }
    return done;
  },
  /** Goes on by itself: a reconcile that waited for a download would hold up its key. */
  startFilling: async (_step, { observation, filler }) => {
    filler.begin(observation);
    return done;
  },
  awaitUpload: async (_step, { observation: { claim }, filler }) => {
    const marks = { [annotations.podPhase]: 'Running', [annotations.podReady]: 'true' };
    if (claim) await mark(claim, { ...marks, [annotations.running]: 'true' }, filler);
    return done;
  },
  markFilled: async (_step, { observation: { claim }, filler }) => {
    const marks = { [annotations.podPhase]: 'Succeeded', [annotations.podReady]: 'false' };
    const ended = { [annotations.running]: 'false', [annotations.runningReason]: 'Completed' };
    if (claim) await mark(claim, { ...marks, ...ended }, filler);
    return done;
  },
};

async function mark(claim: PersistentVolumeClaim, marks: Record<string, string>, { client }: Filler): Promise<void> {
  const { metadata } = claim;
  const body = { metadata: { uid: metadata.uid, annotations: marks } };
  await writeIfThere(client.patch(resources.persistentVolumeClaims, metadata, body, 'merge'));
}
