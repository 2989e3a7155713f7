"""STAND-INS for what lab hosts have not: scripts that install them on a host."""

from __future__ import annotations

NFS_SERVER = """\
(cat /proc/filesystems; printf 'nodev\\tnfsd\\n') > /run/filesystems
mount --bind /run/filesystems /proc/filesystems
cat > /etc/systemd/system/nfs-server.service <<'END'
[Unit]
Description=stand-in for the NFS server, which the kernel of the lab does not have
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=-/usr/sbin/exportfs -r
ExecStart=/bin/true
ExecStopPost=/usr/sbin/exportfs -au
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
"""
"""The kernel of the lab has no NFS server: a unit that exports what the table has, and serves nothing."""

MPS_LOG = "/var/tmp/lab-mps"
MPS_CONTROL = "/usr/local/bin/nvidia-cuda-mps-control"
MPS = f"""\
cat >{MPS_CONTROL} <<'END'
#!/bin/sh
# STAND-IN for nvidia-cuda-mps-control in a lab: there is no GPU. It writes down its start, with the GPU, and its end.
case $1 in
    -d)
        echo "start $CUDA_VISIBLE_DEVICES" >>{MPS_LOG}
        setsid "$0" --serve </dev/null >/dev/null 2>&1 &
        echo $! >{MPS_LOG}.pid ;;
    --serve) while :; do sleep 1; done ;;
    *)
        read word
        echo "$word" >>{MPS_LOG}
        kill "$(cat {MPS_LOG}.pid)" ;;
esac
END
chmod 755 {MPS_CONTROL}
"""
"""There is no GPU: a daemon that writes down its start, with the GPU, and its end."""
