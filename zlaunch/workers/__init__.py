"""Programs that ranks run: read as text and sent to the hosts, never imported by zlaunch."""
