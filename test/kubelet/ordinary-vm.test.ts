import { ordinaryVmStory } from './ordinary-vm-story.ts';

/** Our agent and our launcher, whose image gives its capability to files: it hands nothing on. */
ordinaryVmStory({ launcher: 'ours', ambient: 0n });
