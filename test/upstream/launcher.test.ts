import { ordinaryVmStory } from '../kubelet/ordinary-vm-story.ts';

/** Our agent with upstream's launcher, whose monitor hands on the right to bind low ports. */
ordinaryVmStory({ launcher: 'upstream', ambient: 1n << 10n });
