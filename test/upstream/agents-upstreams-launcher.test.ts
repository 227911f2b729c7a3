import { agentsStory } from './agents-story.ts';

agentsStory('upstream');
